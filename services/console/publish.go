package console

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"millwright/services/console/trust"
	"millwright/services/internal/clock"
	"millwright/services/internal/pki"
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
	own, err := c.anchors()
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

// anchors are what the certificate that is shown is known by.
func (c *Console) anchors() (trust.Anchors, error) {
	shown, err := c.identity.Get(nil)
	if err != nil {
		return trust.Anchors{}, err
	}
	authorities := c.identity.Bundle()
	if file := c.cfg.Settings.CertFile; file != "" { // Secrets of certificates often have their authority beside them
		authorities, err = os.ReadFile(filepath.Join(filepath.Dir(file), pki.KeyCA))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return trust.Anchors{}, fmt.Errorf("read authority of the console: %w", err)
		}
	}
	var chain []*x509.Certificate
	for _, der := range shown.Certificate {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return trust.Anchors{}, fmt.Errorf("read certificate of the console: %w", err)
		}
		chain = append(chain, c)
	}
	return trust.Of(chain, authorities)
}
