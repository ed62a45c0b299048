package servercert

import (
	"log"
	"strings"

	"github.com/rs/zerolog"
)

// ErrorLog logs, at debug, what an http.Server reports of connections it could not use: mostly probes without
// TLS.
func ErrorLog(logger zerolog.Logger) *log.Logger { return log.New(dropped{logger}, "", 0) }

type dropped struct{ logger zerolog.Logger }

func (d dropped) Write(line []byte) (int, error) {
	d.logger.Debug().Str("text", strings.TrimSpace(string(line))).Msg("connection dropped")
	return len(line), nil
}
