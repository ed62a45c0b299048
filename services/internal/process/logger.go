package process

import (
	goflag "flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/rs/zerolog"
	"k8s.io/klog/v2"
)

// NewLogger returns the logger of a process: JSON, or readable lines if out is a terminal.
func NewLogger(out io.Writer, level string) (zerolog.Logger, error) {
	parsed, err := zerolog.ParseLevel(level)
	if err != nil {
		return zerolog.Nop(), fmt.Errorf("parse log level %q: %w", level, err)
	}
	zerolog.TimeFieldFormat = time.RFC3339Nano
	zerolog.DurationFieldUnit = time.Millisecond
	if f, ok := out.(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		out = zerolog.ConsoleWriter{Out: f, TimeFormat: "15:04:05.000"}
	}
	return zerolog.New(out).Level(parsed).With().Timestamp().Logger(), nil
}

// QuietLibraries sends what client-go logs by itself to the logger, instead of stderr. Without these flags
// klog writes a line once for each severity up to its own, and errors to stderr as well.
func QuietLibraries(logger zerolog.Logger) {
	flags := goflag.NewFlagSet("klog", goflag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			logger.Error().Err(err).Str("flag", name).Msg("klog flag not set")
		}
	}
	klog.SetOutput(libraryWriter{logger})
}

type libraryWriter struct{ logger zerolog.Logger }

// Write takes one line, whose first letter is its severity. Errors of informers are retried by them: a
// warning.
func (w libraryWriter) Write(line []byte) (int, error) {
	event := w.logger.Debug()
	if len(line) > 0 && (line[0] == 'E' || line[0] == 'F') {
		event = w.logger.Warn()
	}
	event.Str("text", strings.TrimSpace(string(line))).Msg("kubernetes client")
	return len(line), nil
}
