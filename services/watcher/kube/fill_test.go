package kube

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// filler sets every field of an object, each text to a token of its own, and remembers which field got it.
type filler struct {
	// paths of fields by token. An index is written [], a map's key or value .key or .value.
	paths map[string]string
	depth int
}

func newFiller() *filler { return &filler{paths: map[string]string{}} }

func (f *filler) fill(object any) {
	v := reflect.ValueOf(object).Elem()
	f.value(v, v.Type().Name())
}

func (f *filler) token(path string) string {
	t := fmt.Sprintf("<%d>", len(f.paths)+1)
	f.paths[t] = path
	return t
}

func (f *filler) value(v reflect.Value, path string) {
	if f.depth > 24 {
		return
	}
	f.depth++
	defer func() { f.depth-- }()
	if f.special(v, path) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.value(v.Elem(), path)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				f.value(v.Field(i), path+"."+field.Name)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.value(v.Index(i), path+"[]")
		}
		if conditions, ok := v.Interface().([]corev1.PodCondition); ok {
			conditions[0].Type = corev1.PodScheduled // others are dropped whole
		}
		if volumes, ok := v.Interface().([]corev1.Volume); ok {
			volumes[1].PersistentVolumeClaim = nil // so that the next source counts
		}
	case reflect.Map:
		f.mapping(v, path)
	case reflect.String:
		v.SetString(f.token(path))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8:
		v.SetUint('x')
	}
}

func (f *filler) mapping(v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
	f.value(key, path+".key")
	f.value(value, path+".value")
	v.SetMapIndex(key, value)
}

// special handles types whose text is not free.
func (f *filler) special(v reflect.Value, path string) bool {
	switch p := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*p = resource.MustParse("3")
	case *metav1.Time:
		*p = metav1.Unix(1e9, 0)
	case *metav1.FieldsV1:
		p.SetRawBytes(fmt.Appendf(nil, "%q", f.token(path)))
	case *metav1.TypeMeta:
	default:
		return false
	}
	return true
}
