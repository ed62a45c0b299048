package embedded

import (
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"gopkg.in/natefinch/lumberjack.v2"
)

const (
	// logMegabytes is the size at which etcd.log begins anew; the one before it is kept.
	logMegabytes = 8
	// alikeMax of the errors that read alike go to Options.Log in alikeEvery.
	alikeMax   = 10
	alikeEvery = time.Minute
)

// openLog sends warnings and errors to a file, and errors to also too, unless it is nil: etcd ends the
// process when it cannot write, and the file may be on the very disk that is full.
func (s *Server) openLog(path string, also func(level, message string, fields map[string]any)) {
	s.logFile = &lumberjack.Logger{Filename: path, MaxSize: logMegabytes, MaxBackups: 1}
	encoder := zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig())
	core := zapcore.NewCore(encoder, zapcore.AddSync(s.logFile), zapcore.WarnLevel)
	if also != nil {
		running := zap.LevelEnablerFunc(func(l zapcore.Level) bool { return l >= zapcore.ErrorLevel && !s.closing.Load() })
		told := zapcore.NewSamplerWithOptions(&teller{LevelEnabler: running, tell: also}, alikeEvery, alikeMax, 0)
		core = zapcore.NewTee(told, core)
	}
	s.log = zap.New(core)
}

// teller is a core that calls a function.
type teller struct {
	zapcore.LevelEnabler
	tell   func(level, message string, fields map[string]any)
	fields []zapcore.Field
}

var _ zapcore.Core = (*teller)(nil)

// With implements zapcore.Core.
func (t *teller) With(fields []zapcore.Field) zapcore.Core {
	return &teller{t.LevelEnabler, t.tell, append(t.fields[:len(t.fields):len(t.fields)], fields...)}
}

// Check implements zapcore.Core.
func (t *teller) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if t.Enabled(e.Level) {
		return to.AddCore(e, t)
	}
	return to
}

// Write implements zapcore.Core.
func (t *teller) Write(e zapcore.Entry, fields []zapcore.Field) error {
	encoder := zapcore.NewMapObjectEncoder()
	for _, list := range [][]zapcore.Field{t.fields, fields} {
		for _, f := range list {
			f.AddTo(encoder)
		}
	}
	t.tell(e.Level.String(), e.Message, encoder.Fields)
	return nil
}

// Sync implements zapcore.Core.
func (t *teller) Sync() error { return nil }
