package reading_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	bufferv1beta1 "millwright/api/autoscaling/v1beta1"
	karpv1 "millwright/api/karpenter/v1"
	karpv1alpha1 "millwright/api/karpenter/v1alpha1"
	awsv1 "millwright/api/karpenteraws/v1"
	"millwright/api/reading"
)

// Each of these quantities would take hours to parse, and is one that a CRD lets pass.
func TestQuantitiesThatTakeTooLongMakeAnObjectUnreadable(t *testing.T) {
	pool := func(text string) (string, error) {
		o := karpv1.NodePool{}
		err := json.Unmarshal([]byte(text), &o)
		return o.Unreadable, err
	}
	claim := func(text string) (string, error) {
		o := karpv1.NodeClaim{}
		err := json.Unmarshal([]byte(text), &o)
		return o.Unreadable, err
	}
	class := func(text string) (string, error) {
		o := awsv1.EC2NodeClass{}
		err := json.Unmarshal([]byte(text), &o)
		return o.Unreadable, err
	}
	overlay := func(text string) (string, error) {
		list := karpv1alpha1.NodeOverlayList{}
		err := json.Unmarshal([]byte(`{"items":[`+text+`]}`), &list)
		return list.Items[0].Unreadable, err
	}
	buffer := func(text string) (string, error) {
		list := bufferv1beta1.CapacityBufferList{}
		err := json.Unmarshal([]byte(`{"items":[`+text+`]}`), &list)
		return list.Items[0].Unreadable, err
	}
	for sentence, c := range map[string]struct {
		read         func(string) (string, error)
		object, want string
	}{
		"a limit":                     {pool, `{"spec":{"limits":{"memory":"1Gi","cpu":"1e-2000000000"}}}`, "spec.limits.cpu: exponents of quantities"},
		"a large exponent":            {pool, `{"spec":{"limits":{"cpu":".5E+1000"}}}`, "spec.limits.cpu: "},
		"one that is written oddly":   {pool, `{"spec":{"limits":{"cpu":"1\u0065-2000000000"}}}`, "spec.limits.cpu: "},
		"a number":                    {pool, `{"spec":{"limits":{"cpu":1e-2000000000}}}`, "spec.limits.cpu: "},
		"many digits":                 {pool, `{"spec":{"limits":{"cpu":"` + strings.Repeat("1", 1<<20) + `"}}}`, "spec.limits.cpu: quantities must have at most 256 characters"},
		"the status":                  {pool, `{"status":{"resources":{"cpu":"1e-2000000000"}}}`, "status.resources.cpu: "},
		"requests":                    {claim, `{"spec":{"resources":{"requests":{"cpu":"1e-2000000000"}}}}`, "spec.resources.requests.cpu: "},
		"what a node has":             {claim, `{"status":{"allocatable":{"cpu":"1e-2000000000"}}}`, "status.allocatable.cpu: "},
		"a volume":                    {class, `{"spec":{"blockDeviceMappings":[{"ebs":{"volumeSize":"1e-2000000000"}}]}}`, "spec.blockDeviceMappings[0].ebs.volumeSize: "},
		"a resource of a NodeOverlay": {overlay, `{"spec":{"requirements":[],"capacity":{"a/b":"1e-2000000000"}}}`, "spec.capacity.a/b: "},
		"limits of a buffer":          {buffer, `{"spec":{"limits":{"cpu":"1e-2000000000"}}}`, "spec.limits.cpu: "},
		"no form, in a buffer":        {buffer, `{"spec":{"limits":{"cpu":"1e5.5"}}}`, "spec.limits.cpu: "},
		"a label that looks like one": {pool, `{"metadata":{"name":"n","labels":{"limits":"1e-2000000000"}},"spec":{"template":{"metadata":{"labels":{"commit":"12e4567"}}}}}`, ""},
		"a large one that is fine":    {pool, `{"spec":{"limits":{"cpu":"1e999"}}}`, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			began := time.Now()
			got, err := c.read(c.object)
			if err != nil || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("unreadable: %q, %v; want %q", got, err, c.want)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// What an unreadable object has besides stays as it is.
func TestTheRestOfTheStatusIsKept(t *testing.T) {
	o := karpv1.NodeClaim{}
	err := json.Unmarshal([]byte(`{"metadata":{"name":"c","generation":9007199254740993},"spec":{"resources":{"requests":{"cpu":"1e-2000000000"}}},
		"status":{"providerID":"p","capacity":{"cpu":"1e-2000000000","memory":"1Gi"}}}`), &o)
	if err != nil || o.Name != "c" || o.Generation != 9007199254740993 || o.Status.ProviderID != "p" || o.Status.Capacity.Memory().Value() != 1<<30 || len(o.Status.Capacity) != 1 {
		t.Errorf("%v: %+v", err, o)
	}
}

func TestQuantity(t *testing.T) {
	for _, text := range []string{"1e-2000000000", "1E1000", strings.Repeat("1", 300), "one"} {
		if q, err := reading.Quantity(text); err == nil {
			t.Errorf("%q is %s", text, q.String())
		}
	}
	for _, text := range []string{"1", "1e3", "1Ei", "2E", "0.5Gi", "1e-999"} {
		if _, err := reading.Quantity(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// The kubelet takes no others (validation of its --eviction-hard).
func TestThreshold(t *testing.T) {
	for text, want := range map[string]string{
		"5%": "5/1", "7.5%": "15/2", "100%": "100/1", "0%": "0/1", ".5%": "1/2", "100Mi": "quantity 100Mi", "1.5Gi": "quantity 1536Mi",
		"ten%": "", "%": "", "": "", "-5%": "", "101%": "", "1/2%": "", "1e1%": "", "0x10%": "", "1p9999999%": "", "5 %": "", "1_0%": "", "-1Gi": "", "1e-2000000000": "",
		strings.Repeat("0", 1000) + "%": "",
	} {
		amount, percent, err := reading.Threshold(text)
		got := ""
		switch {
		case err != nil:
		case percent != nil:
			got = percent.String()
		default:
			got = "quantity " + amount.String()
		}
		if got != want {
			t.Errorf("%.20q reads as %q, want %q; %v", text, got, want, err)
		}
	}
}

func TestWithNoQuantity(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"1e20","b":[1,"x"]}`:                             `{"a":"1e20","b":[1,"x"]}`,
		`{"a":{"b":[1e2000000000,"1e-20000"]},"c":"12e4567x"}`: `{"a":{"b":["a number that takes too long to read","a number that takes too long to read"]},"c":"a number that takes too long to read"}`,
		`[9007199254740993,"1e9999"]`:                          `[9007199254740993,"a number that takes too long to read"]`,
		`{"a":1e9999`:                                          `{"a":1e9999`,
	} {
		if got := string(reading.WithNoQuantity([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
