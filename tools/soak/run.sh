#!/usr/bin/env bash
# Draws new cases for as long as it is told, and prints what reproduces each failure. Usage: run.sh DURATION
#
# Three kinds take turns: properties with new cases, the simulator with new seeds, and the end-to-end tests that crash
# things at random with new histories. A failure does not end the run; it is listed at the end, and the run ends with 1.
set -uo pipefail
cd "$(dirname "$0")/../.."

seconds() { # 90s, 20m, 2h or plain seconds
	case $1 in
	*h) echo $((${1%h} * 3600)) ;;
	*m) echo $((${1%m} * 60)) ;;
	*s) echo "${1%s}" ;;
	*) echo "$1" ;;
	esac
}

end=$((SECONDS + $(seconds "$1"))) || exit 2
state=.local/soak
mkdir -p "$state"
failures=$state/failures
: >"$failures"

failed() { # what, how to see it again, log
	printf 'FAILED: %s\n  again: %s\n  log:   %s\n' "$1" "$2" "$3" | tee -a "$failures"
}

properties=$(grep -rlE 'rapid\.(Check|MakeCheck)' --include='*_test.go' . | xargs -n1 dirname | sort -u)

round=0
while [ "$SECONDS" -lt "$end" ]; do
	round=$((round + 1))
	seed=$((RANDOM * 32768 * 32768 + RANDOM * 32768 + RANDOM))
	echo "== round $round, seed $seed, $((end - SECONDS)) s left"

	log=$state/properties-$seed.log
	# shellcheck disable=SC2086 # a list of packages
	if RAPID_SEED=$seed RAPID_CHECKS=500 go test -count=1 -timeout 20m $properties >"$log" 2>&1; then
		rm -f "$log"
	else
		failed "properties" "RAPID_SEED=$seed RAPID_CHECKS=500 go test -count=1 the package named in the log" "$log"
	fi
	[ "$SECONDS" -lt "$end" ] || break

	log=$state/sim-$seed.log
	if GODEBUG=asyncpreemptoff=1 go run ./tools/simrun --quiet --all --seeds 500 --first "$seed" >"$log" 2>&1; then
		tail -n 1 "$log"
		rm -f "$log"
	else
		failed "simulator: $(grep -m3 -E '^seed [0-9]+ failed' "$log")" "make sim SEEDS=500 FIRST=$seed" "$log"
	fi
	[ "$SECONDS" -lt "$end" ] || break

	log=$state/e2e-$seed.log
	if E2E_SEED=$seed go test ./tools/e2e -count=1 -timeout 30m -run AtRandom -v >"$log" 2>&1; then
		rm -f "$log"
	else
		failed "end to end: $(grep -m3 -E '^--- FAIL' "$log")" "E2E_SEED=$seed go test ./tools/e2e -run AtRandom -v" "$log"
	fi
done

if [ -s "$failures" ]; then
	printf '\n%d failures in %d rounds:\n' "$(grep -c ^FAILED "$failures")" "$round"
	cat "$failures"
	exit 1
fi
printf '\n%d rounds, nothing failed\n' "$round"
