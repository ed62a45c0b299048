package conversion

import "fmt"

func nodePoolToV1(root node, a *annotations) error {
	spec, err := root.required("spec")
	if err != nil {
		return err
	}
	template, err := templateSpec(spec)
	if err != nil {
		return err
	}
	if err := disruptionToV1(spec, template, a); err != nil {
		return err
	}
	delete(template.fields, "resources")
	return specToV1(template, a)
}

func templateSpec(spec node) (node, error) {
	template, err := spec.required("template")
	if err != nil {
		return node{}, err
	}
	return template.required("spec")
}

// disruptionToV1: expireAfter moves into the template; WhenUnderutilized waits for nothing.
func disruptionToV1(spec, template node, a *annotations) error {
	delete(a.m, ConsolidateAfterAnnotation)
	d, err := spec.ensure("disruption")
	if err != nil {
		return err
	}
	policy, err := d.text("consolidationPolicy")
	if err != nil {
		return err
	}
	after, err := d.text("consolidateAfter")
	if err != nil {
		return err
	}
	if _, err := d.text("expireAfter"); err != nil {
		return err
	}
	move(d, "expireAfter", template, "expireAfter")
	switch {
	case policy == "" && after != "": // the old object waits that long, or forever
		d.fields["consolidationPolicy"] = underV1
		a.set(ConsolidateAfterAnnotation, after)
	case policy == "" || policy == underBeta:
		d.fields["consolidationPolicy"], d.fields["consolidateAfter"] = underV1, "0s"
		if after != "" {
			a.set(ConsolidateAfterAnnotation, after)
		}
	default:
		if after == "" {
			d.fields["consolidateAfter"] = never
		}
	}
	return nil
}

func nodePoolToBeta(root node, a *annotations) ([]Loss, error) {
	spec, err := root.required("spec")
	if err != nil {
		return nil, err
	}
	template, err := templateSpec(spec)
	if err != nil {
		return nil, err
	}
	losses, err := disruptionToBeta(spec, template, a)
	if err != nil {
		return nil, err
	}
	losses = append(losses, drop(template, "terminationGracePeriod")...)
	return losses, specToBeta(template, a)
}

func disruptionToBeta(spec, template node, a *annotations) ([]Loss, error) {
	d, err := spec.ensure("disruption")
	if err != nil {
		return nil, err
	}
	if _, err := template.text("expireAfter"); err != nil {
		return nil, err
	}
	move(template, "expireAfter", d, "expireAfter")
	losses, err := consolidationToBeta(d, a)
	if err != nil {
		return nil, err
	}
	budgets, err := d.list("budgets")
	for _, b := range budgets {
		losses = append(losses, drop(b, "reasons")...)
	}
	return losses, err
}

func consolidationToBeta(d node, a *annotations) ([]Loss, error) {
	remembered, annotated := a.take(ConsolidateAfterAnnotation)
	policy, err := d.text("consolidationPolicy")
	if err != nil {
		return nil, err
	}
	after, err := d.text("consolidateAfter")
	if err != nil {
		return nil, err
	}
	if policy != "" && policy != underV1 {
		return nil, nil
	}
	d.fields["consolidationPolicy"] = underBeta
	delete(d.fields, "consolidateAfter")
	switch {
	case annotated && (isZero(after) || after == remembered):
		d.fields["consolidateAfter"] = remembered
	case !isZero(after):
		return []Loss{{d.at("consolidateAfter"), fmt.Sprintf("%s: v1beta1 consolidates at once under WhenUnderutilized", after)}}, nil
	}
	return nil, nil
}

// isZero: consolidateAfter is absent or no time.
func isZero(d string) bool { return d == "" || d == "0s" || d == "0m" || d == "0h" }

// drop removes a field that v1beta1 does not have.
func drop(n node, key string) []Loss {
	v, ok := n.fields[key]
	delete(n.fields, key)
	if !ok || v == nil {
		return nil
	}
	return []Loss{{n.at(key), "v1beta1 has no such field"}}
}
