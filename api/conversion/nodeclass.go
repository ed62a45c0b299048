package conversion

import (
	"reflect"
	"slices"
	"strings"
)

const (
	familyUbuntu = "Ubuntu"
	familyAL2    = "AL2"
	familyCustom = "Custom"
	latest       = "latest"
)

// aliasFamilies are the families that have an alias, which is the name in lower case.
var aliasFamilies = []string{"AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"}

// familyOf returns the family of an alias; "" if there is none of the name.
func familyOf(alias string) string {
	name, _, _ := strings.Cut(alias, "@")
	for _, f := range aliasFamilies {
		if strings.ToLower(f) == name {
			return f
		}
	}
	return ""
}

func nodeClassToV1(root node, a *annotations) error {
	spec, ok, err := root.child("spec")
	if err != nil || !ok { // the v1 CRD lets a class without spec in: it must stay readable
		return err
	}
	family, err := spec.text("amiFamily")
	if err != nil {
		return err
	}
	terms, err := spec.list("amiSelectorTerms")
	if err != nil {
		return err
	}
	delete(a.m, UbuntuAnnotation)
	switch {
	case family == familyUbuntu:
		return ubuntuToV1(spec, len(terms) > 0, a)
	case !slices.Contains(aliasFamilies, family):
		spec.fields["amiFamily"] = familyCustom
		if alias, ok := a.get(AliasVersionAnnotation); ok && len(terms) == 0 && familyOf(alias) != "" && strings.Contains(alias, "@") {
			a.take(AliasVersionAnnotation)
			spec.fields["amiSelectorTerms"] = []any{Object{"alias": alias}}
		}
	case len(terms) == 0:
		v, ok := a.get(AliasVersionAnnotation)
		if !ok || v == "" {
			v = latest
		}
		if v != latest {
			a.take(AliasVersionAnnotation)
		}
		spec.fields["amiSelectorTerms"] = []any{Object{"alias": strings.ToLower(family) + "@" + v}}
		delete(spec.fields, "amiFamily")
	}
	return nil
}

// ubuntuVolume is the root volume that Karpenter gave to nodes of the family Ubuntu.
func ubuntuVolume() []any {
	return []any{Object{"deviceName": "/dev/sda1", "rootVolume": true,
		"ebs": Object{"encrypted": true, "volumeType": "gp3", "volumeSize": "20Gi"}}}
}

// ubuntuToV1: v1 has no family Ubuntu. AL2's user data works for it; its root volume is written out. There is
// no alias, so a class without terms gets one that selects nothing.
func ubuntuToV1(spec node, hasTerms bool, a *annotations) error {
	parts := []string{ubuntuAMIFamily}
	spec.fields["amiFamily"] = familyAL2
	volumes, err := spec.list("blockDeviceMappings")
	if err != nil {
		return err
	}
	if len(volumes) == 0 {
		parts = append(parts, ubuntuBlockDevices)
		spec.fields["blockDeviceMappings"] = ubuntuVolume()
	}
	if !hasTerms {
		parts = append(parts, ubuntuIncompatible)
		spec.fields["amiSelectorTerms"] = []any{Object{"id": ubuntuPlaceholder}}
	}
	a.set(UbuntuAnnotation, strings.Join(parts, ","))
	return nil
}

func nodeClassToBeta(root node, a *annotations) ([]Loss, error) {
	spec, ok, err := root.child("spec")
	if err != nil || !ok { // the v1 CRD lets a class without spec in: it must stay readable
		return nil, err
	}
	losses := drop(spec, "kubelet")
	if text, ok := a.take(UbuntuAnnotation); ok {
		ubuntuToBeta(spec, strings.Split(text, ","))
	}
	family, err := spec.text("amiFamily")
	if err != nil {
		return nil, err
	}
	terms, err := spec.list("amiSelectorTerms")
	if err != nil {
		return nil, err
	}
	return losses, aliasToBeta(spec, family, terms, a)
}

// aliasToBeta drops the alias, which v1beta1 does not have: its family without terms means the same.
func aliasToBeta(spec node, family string, terms []node, a *annotations) error {
	alias := ""
	for _, t := range terms {
		text, err := t.text("alias")
		if err != nil {
			return err
		}
		if text != "" {
			alias = text
		}
	}
	if alias == "" {
		if family == "" { // v1beta1 demands one; without a family nothing is known of how its images boot
			spec.fields["amiFamily"] = familyCustom
		}
		return nil
	}
	if family == "" {
		if family = familyOf(alias); family == "" {
			return &FieldError{terms[0].at("alias"), "unknown family in alias " + alias}
		}
	}
	_, v, _ := strings.Cut(alias, "@")
	switch have, _ := a.get(AliasVersionAnnotation); {
	case family == familyCustom:
		a.set(AliasVersionAnnotation, alias)
	case v != latest && v != "":
		a.set(AliasVersionAnnotation, v)
	case have != latest:
		a.take(AliasVersionAnnotation)
	}
	spec.fields["amiFamily"] = family
	rest := slices.DeleteFunc(slices.Clone(spec.fields["amiSelectorTerms"].([]any)), func(t any) bool {
		has, _ := t.(Object)["alias"].(string)
		return has != ""
	})
	spec.fields["amiSelectorTerms"] = rest
	if len(rest) == 0 {
		delete(spec.fields, "amiSelectorTerms")
	}
	return nil
}

// ubuntuToBeta takes out what ubuntuToV1 put in, as far as it is still there.
func ubuntuToBeta(spec node, parts []string) {
	if slices.Contains(parts, ubuntuAMIFamily) && spec.fields["amiFamily"] == familyAL2 {
		spec.fields["amiFamily"] = familyUbuntu
	}
	if slices.Contains(parts, ubuntuBlockDevices) && reflect.DeepEqual(spec.fields["blockDeviceMappings"], any(ubuntuVolume())) {
		delete(spec.fields, "blockDeviceMappings")
	}
	if slices.Contains(parts, ubuntuIncompatible) && reflect.DeepEqual(spec.fields["amiSelectorTerms"], any([]any{Object{"id": ubuntuPlaceholder}})) {
		delete(spec.fields, "amiSelectorTerms")
	}
}
