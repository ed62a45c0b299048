package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// ui writes the timeline: one line per event, beginning with the seconds since the start. It is safe for
// concurrent use.
type ui struct {
	mu    sync.Mutex
	out   io.Writer
	start time.Time
	color bool
}

// Colours of the timeline.
const (
	plain  = ""
	dim    = "2"
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	blue   = "36"
)

func newUI(out *os.File) *ui {
	info, err := out.Stat()
	tty := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == ""
	return &ui{out: out, start: time.Now(), color: tty}
}

func (u *ui) paint(color, text string) string {
	if !u.color || color == plain {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// title starts a chapter.
func (u *ui) title(format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprintf(u.out, "\n%s\n", u.paint(bold, fmt.Sprintf(format, args...)))
}

// line of the timeline; what names the source in one word.
func (u *ui) line(color, what, format string, args ...any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	at := u.paint(dim, fmt.Sprintf("%7.2fs", time.Since(u.start).Seconds()))
	fmt.Fprintf(u.out, "%s  %s %s\n", at, u.paint(color, fmt.Sprintf("%-11s", what)), fmt.Sprintf(format, args...))
}

// block prints the output of a command, indented.
func (u *ui) block(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for line := range strings.Lines(text) {
		fmt.Fprintf(u.out, "    %s\n", strings.TrimRight(line, "\n"))
	}
}
