package turn

// How many simulations one Plan may begin, and how many questions it may ask: fewer the bigger the cluster
// is.
const (
	trialsMax      = 400
	trialSizeTotal = 1_500_000
	trialsLeast    = 24
	// A question to the one simulation costs a fraction of a simulation that is begun anew: each candidate of
	// 5,000 nodes is asked.
	questionsMax       = 6000
	questionsSizeTotal = 1_000_000_000
	questionsLeast     = 1000
)

// PassesMost is for how many passes a candidate waits at most.
const PassesMost = 3

// Trials is how many simulations may be begun in a cluster of so many nodes and pods.
func Trials(size int) int { return max(trialsLeast, min(trialsMax, trialSizeTotal/size)) }

// Questions is how many of so many candidates are asked alone in one pass, in a cluster of so many nodes and
// pods.
func Questions(size, candidates int) int {
	return max(questionsLeast, min(questionsMax, questionsSizeTotal/size), (candidates+PassesMost-1)/PassesMost)
}
