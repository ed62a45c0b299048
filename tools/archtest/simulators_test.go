package archtest

// accountServices are the services of the simulated AWS account, each a package of its own.
var accountServices = []string{"network", "ami", "template", "iam", "sqs", "eks", "pricing", "instancetype", "reservation", "faults", "instance"}

// simulatorRules keep apart the parts of the simulated account, and those of the simulated system.
func simulatorRules() []rule {
	const sim = "tools/ec2sim/sim"
	rules := []rule{
		{from: sim + "/wire", banned: ours("tools/ec2sim"), reason: "protocols know no resource"},
		{from: sim + "/account", banned: ours(simulatorPackages(accountServices)...), reason: "the account knows none of its services"},
	}
	rules = append(rules,
		rule{from: "services/sim/stage", banned: ours("services/sim/judge", "services/sim/users"), reason: "the stage decides nothing"},
		rule{from: "services/sim/judge", banned: ours("services/sim/users", "planner/provision", "planner/disrupt", "planner/drain", "planner/world"),
			reason: "who judges shares no code with what is judged, and does nothing to it"},
		rule{from: "services/sim/witness", banned: ours("planner", "services/sim/judge", "services/sim/users"), reason: "the truth that answers are compared with shares no code with what they come from"},
		rule{from: "services/sim/users", banned: ours("services/sim/judge"), reason: "users do not know what is checked"})
	for _, service := range accountServices {
		r := rule{from: sim + "/" + service, reason: "services of the account stand alone; instance joins those that a launch needs"}
		for _, other := range accountServices {
			joined := service == "instance" || service == "eks" && other == "network"
			if other != service && !joined {
				r.banned = append(r.banned, ours(simulatorPackages([]string{other})...)...)
			}
		}
		rules = append(rules, r)
	}
	return rules
}

func simulatorPackages(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "tools/ec2sim/sim/" + name
	}
	return out
}
