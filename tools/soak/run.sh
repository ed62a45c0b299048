#!/usr/bin/env bash
# Draws new cases for as long as it is told, and prints what reproduces each failure. Usage: run.sh DURATION
#
# Three kinds take turns: properties with new cases, the simulator with new seeds, and the end-to-end tests that crash
# things at random with new histories. A failure does not end the run, but twenty do; it is listed at the end, also of a run that is
# interrupted, and the run ends with 1. CHECKS and SEEDS say how many cases and seeds there are in a round.
set -uo pipefail
cd "$(dirname "$0")/../.."

seconds() { # 90s, 20m, 2h or plain seconds
	case $1 in
	*h) echo $((${1%h} * 3600)) ;;
	*m) echo $((${1%m} * 60)) ;;
	*) echo $((${1%s})) ;;
	esac
}

for=$(seconds "${1:?usage: run.sh DURATION}") || exit 2
checks=${CHECKS:-500}
seeds=${SEEDS:-500}
state=.local/soak
mkdir -p "$state"
failures=$state/failures
failures_max=20 # something fails always, then
: >"$failures"
rounds=$state/rounds
: >"$rounds"

failed() { # what, how to see it again, log
	printf 'FAILED: %s\n  again: %s\n  log:   %s\n' "$1" "$2" "$3" | tee -a "$failures"
	if [ "$(grep -c ^FAILED "$failures")" -ge "$failures_max" ]; then
		echo "that is enough"
		exit 1
	fi
}

# A kind gets as long as is left, and ten minutes to end; the round before tells that this is enough.
limit() { echo $((end - SECONDS + 600)); }

report() {
	trap - EXIT
	trap '' INT TERM
	printf '\nafter %d s: ' "$SECONDS"
	sort "$rounds" | uniq -c | awk '{ printf "%s x %s, ", $1, $2 }'
	if [ -s "$failures" ]; then
		printf '%d failures:\n' "$(grep -c ^FAILED "$failures")"
		cat "$failures"
		exit 1
	fi
	printf 'nothing failed\n'
	exit 0
}
trap report EXIT
trap 'exit 130' INT TERM

properties=$(grep -rlE 'rapid\.(Check|MakeCheck)' --include='*_test.go' . | xargs -n1 dirname | sort -u)

end=$((SECONDS + for))
round=0
while [ "$SECONDS" -lt "$end" ]; do
	round=$((round + 1))
	seed=$((RANDOM * 32768 * 32768 + RANDOM * 32768 + RANDOM + 1))
	echo "== round $round, seed $seed, $((end - SECONDS)) s left"

	log=$state/properties-$seed.log
	# shellcheck disable=SC2086 # a list of packages
	if RAPID_SEED=$seed RAPID_CHECKS=$checks timeout "$(limit)" go test -count=1 -timeout 20m $properties >"$log" 2>&1; then
		rm -f "$log"
	else
		failed "properties: $(grep -E '^(--- FAIL|FAIL[[:space:]]+millwright)' "$log" | tr '\n' ' ')" \
			"RAPID_SEED=$seed RAPID_CHECKS=$checks go test -count=1 $(grep -E '^FAIL[[:space:]]+millwright' "$log" | awk '{ sub("millwright", ".", $2); print $2 }' | tr '\n' ' ')
$(grep -E 'rapid\.(failfile|seed)=' "$log" | sed 's/^/         /')" "$log"
	fi
	echo properties >>"$rounds"
	[ "$SECONDS" -lt "$end" ] || break

	log=$state/sim-$seed.log
	if GODEBUG=asyncpreemptoff=1 timeout "$(limit)" go run ./tools/simrun --quiet --all --seeds "$seeds" --first "$seed" >"$log" 2>&1; then
		tail -n 1 "$log"
		rm -f "$log"
	else
		failed "simulator: $(grep -m3 -E '^seed [0-9]+ failed' "$log")" \
			"go run ./tools/simrun --first N, of each seed N: $(grep -oE '^seed [0-9]+ failed' "$log" | awk '{ print $2 }' | tr '\n' ' ')" "$log"
	fi
	echo simulator >>"$rounds"
	[ "$SECONDS" -lt "$end" ] || break

	log=$state/e2e-$seed.log
	rm -rf "$state/e2e"
	if E2E_SEED=$seed E2E_KEEP=$PWD/$state/e2e timeout "$(limit)" go test ./tools/e2e -count=1 -timeout 30m -run AtRandom -v >"$log" 2>&1; then
		rm -f "$log"
	else
		mv "$state/e2e" "$state/e2e-$seed" 2>/dev/null
		failed "end to end: $(grep -m3 -E '^--- FAIL' "$log")" "E2E_SEED=$seed go test ./tools/e2e -count=1 -run AtRandom -v; the stack's files are in $state/e2e-$seed" "$log"
	fi
	echo end-to-end >>"$rounds"
done
