package embedded

import "fmt"

// logger passes on warnings and errors and drops the rest.
type logger func(level, message string)

func (l logger) Warnf(format string, v ...any)  { l("warn", fmt.Sprintf(format, v...)) }
func (l logger) Errorf(format string, v ...any) { l("error", fmt.Sprintf(format, v...)) }
func (l logger) Fatalf(format string, v ...any) { l("error", fmt.Sprintf(format, v...)) }

func (l logger) Noticef(string, ...any) {}
func (l logger) Debugf(string, ...any)  {}
func (l logger) Tracef(string, ...any)  {}
