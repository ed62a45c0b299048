package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// count writes a whole number with thousands separated.
func count(v float64) string {
	digits := strconv.FormatInt(int64(math.Round(v)), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// millis writes milliseconds with a useful number of digits.
func millis(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.2f s", v/1000)
	case v >= 100:
		return fmt.Sprintf("%.0f ms", v)
	case v >= 1:
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.3f ms", v)
}

func duration(d time.Duration) string { return millis(float64(d) / float64(time.Millisecond)) }

// quantile of durations by the nearest rank; 0 of none.
func quantile(all []time.Duration, percent int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
