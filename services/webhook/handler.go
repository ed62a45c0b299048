package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/rs/zerolog"
	apiextv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"millwright/api/conversion"
)

const (
	// requestBytesMax bounds a review: the API server sends all objects of a list in one.
	requestBytesMax = 64 << 20
	// reviewTimeout is below the 30 s after which the API server gives up.
	reviewTimeout = 25 * time.Second
)

// handler answers ConversionReviews.
type handler struct {
	pool     conversion.PoolReader
	shapes   *conversion.Shapes
	logger   zerolog.Logger
	metrics  *metrics
	bytesMax int64
	now      func() time.Time
}

func (h *handler) routes() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /conversion/karpenter.sh", h)
	mux.Handle("POST /conversion/karpenter.k8s.aws", h)
	return mux
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := h.now()
	defer func() { h.metrics.duration.Observe(h.now().Sub(start).Seconds()) }()
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	review, code, err := h.read(w, r)
	if err != nil {
		h.metrics.reviews.WithLabelValues(outcomeRefused).Inc()
		h.logger.Warn().Err(err).Int("status", code).Msg("request refused")
		http.Error(w, err.Error(), code)
		return
	}
	review.Response = h.answer(ctx, review.Request)
	review.Request = nil
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		h.logger.Warn().Err(err).Msg("answer not sent")
	}
}

// read returns the review, or the HTTP status that says why there is none.
func (h *handler) read(w http.ResponseWriter, r *http.Request) (*apiextv1.ConversionReview, int, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, http.StatusUnsupportedMediaType, fmt.Errorf("content type is %q, want application/json", r.Header.Get("Content-Type"))
	}
	review := &apiextv1.ConversionReview{}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, h.bytesMax)).Decode(review); err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("review is larger than %d bytes", tooLarge.Limit)
		}
		return nil, http.StatusBadRequest, fmt.Errorf("parse ConversionReview: %w", err)
	}
	switch {
	case review.Kind != "ConversionReview":
		return nil, http.StatusBadRequest, fmt.Errorf("kind is %q, want ConversionReview", review.Kind)
	case review.APIVersion != "apiextensions.k8s.io/v1" && review.APIVersion != "apiextensions.k8s.io/v1beta1": // the same form
		return nil, http.StatusBadRequest, fmt.Errorf("apiVersion is %q, want apiextensions.k8s.io/v1", review.APIVersion)
	case review.Request == nil:
		return nil, http.StatusBadRequest, errors.New("ConversionReview without request")
	}
	return review, 0, nil
}

// answer converts all objects, or none: one that fails fails the review, as the API server requires.
func (h *handler) answer(ctx context.Context, req *apiextv1.ConversionRequest) *apiextv1.ConversionResponse {
	out := &apiextv1.ConversionResponse{UID: req.UID, ConvertedObjects: []runtime.RawExtension{}, Result: metav1.Status{Status: metav1.StatusSuccess}}
	c := conversion.Converter{Pool: once(h.pool)}
	for i, raw := range req.Objects {
		converted, err := h.convert(ctx, c, raw.Raw, req.DesiredAPIVersion)
		if err != nil {
			err = fmt.Errorf("objects[%d]: %w", i, err)
			h.metrics.reviews.WithLabelValues(outcomeFailed).Inc()
			h.logger.Warn().Err(err).Str("uid", string(req.UID)).Msg("conversion failed")
			out.ConvertedObjects = []runtime.RawExtension{}
			out.Result = metav1.Status{Status: metav1.StatusFailure, Message: err.Error(), Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity}
			return out
		}
		out.ConvertedObjects = append(out.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	h.metrics.reviews.WithLabelValues(outcomeConverted).Inc()
	h.logger.Debug().Str("uid", string(req.UID)).Int("objects", len(req.Objects)).Str("to", req.DesiredAPIVersion).Msg("converted")
	return out
}

func (h *handler) convert(ctx context.Context, c conversion.Converter, raw []byte, to string) ([]byte, error) {
	var v any
	if err := conversion.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("parse object: %w", err)
	}
	o, ok := v.(conversion.Object)
	if !ok {
		return nil, errors.New("parse object: must be a JSON object")
	}
	if err := h.shapes.Check(o); err != nil {
		return nil, err
	}
	converted, losses, err := c.Convert(ctx, o, to)
	if err != nil {
		return nil, err
	}
	kind, _ := converted["kind"].(string) // from a closed set, since otherwise Convert would have failed
	h.metrics.objects.WithLabelValues(kind, to, strconv.FormatBool(len(losses) > 0)).Inc()
	for _, l := range losses {
		h.logger.Debug().Str("object", conversion.Name(o)).Str("field", l.Path).Str("why", l.Why).Msg("field lost in conversion")
	}
	return json.Marshal(converted)
}

// once reads each NodePool once per review.
func once(read conversion.PoolReader) conversion.PoolReader {
	type answer struct {
		expireAfter string
		found       bool
		err         error
	}
	known := map[string]answer{}
	return func(ctx context.Context, name string) (string, bool, error) {
		a, ok := known[name]
		if !ok {
			a.expireAfter, a.found, a.err = read(ctx, name)
			known[name] = a
		}
		return a.expireAfter, a.found, a.err
	}
}
