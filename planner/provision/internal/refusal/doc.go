// Package refusal says why pods have no place: per NodePool, the first step that failed, in the words that
// users know, and how many instance types each constraint ruled out (scheduling §7.5).
package refusal
