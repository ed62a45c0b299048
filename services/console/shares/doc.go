// Package shares sees whose pods spot instances run, and of which teams the pods are that commands move, and
// notes it in the log, as no other record tells it: hour by hour, and command by command.
//
// Guarantees: it decides nothing, and no decision is made of what it notes. What it cannot see or write is
// missing from the savings, where it is told as not observed. Not guaranteed: that an hour or a command is
// noted once. Each replica of the console does it, and the first record counts.
package shares
