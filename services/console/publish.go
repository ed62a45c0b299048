package console

import (
	"context"
	"time"

	"millwright/services/console/trust"
	"millwright/services/internal/clock"
)

const (
	// publishEvery is how often it is looked whether what is published is right; publishTimeout bounds it.
	publishEvery   = time.Minute
	publishTimeout = 15 * time.Second
	// publishAgain is after how long a failure is followed by another try.
	publishAgain = 10 * time.Second
)

// publish keeps up what people with a kubeconfig trust the console by, until ctx ends. That it cannot is
// logged once, until it can again: those who trust it already do not need it.
func (c *Console) publish(ctx context.Context) {
	if c.cfg.Settings.TrustConfigMap == "" {
		return
	}
	failed := ""
	for ctx.Err() == nil {
		wait := publishEvery
		err := c.publishOnce(ctx)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			failed = ""
		default:
			wait = publishAgain
			if failed != err.Error() {
				failed = err.Error()
				c.cfg.Logger.Warn().Err(err).Msg("console cannot publish its certificate")
			}
		}
		_ = clock.Sleep(ctx, wait)
	}
}

func (c *Console) publishOnce(ctx context.Context) error {
	own, err := c.identity.anchors()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	namespace, name := c.cfg.Settings.trust()
	changed, err := trust.Publish(ctx, c.cfg.Core, namespace, name, own, c.cfg.Now())
	if changed {
		c.cfg.Logger.Info().Str("object", c.cfg.Settings.TrustConfigMap).Msg("certificate of the console published")
	}
	return err
}
