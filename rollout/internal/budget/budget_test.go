package budget_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/rollout/internal/budget"
)

type amount int

func (a amount) Of(int) int     { return int(a) }
func (a amount) String() string { return strconv.Itoa(int(a)) }

// half of a total, rounded up.
type half struct{}

func (half) Of(total int) int { return (total + 1) / 2 }
func (half) String() string   { return "half" }

// labelled selects pods that have the label.
type labelled string

func (l labelled) Matches(labels map[string]string) bool { return labels[string(l)] != "" }

// pods reads "a+ b- c+*": names, then + for a pod that serves or - for one that does not, * for one that is
// down. The first letter of the name is its zone; pods with a capital letter have the label db.
func pods(t *testing.T, text string) []budget.Pod {
	t.Helper()
	var all []budget.Pod
	for word := range strings.FieldsSeq(text) {
		name := strings.TrimRight(word, "+-*")
		p := budget.Pod{Name: name, Zone: strings.ToLower(name[:1]), Serves: strings.Contains(word, "+"), Down: strings.Contains(word, "*")}
		if p.Zone == "x" {
			p.Zone = ""
		}
		if name[:1] != strings.ToLower(name[:1]) {
			p.Labels = map[string]string{"db": "1"}
		}
		all = append(all, p)
	}
	return all
}

func TestRefuses(t *testing.T) {
	quorum := func(members *int) budget.Budgets {
		return budget.Budgets{Quorum: &budget.Quorum{Selector: labelled("db"), Healthy: amount(2), Members: members}}
	}
	one := budget.Budgets{Disruptions: []budget.Disruption{{Name: "pdb", Allowed: 1, Selector: labelled("db")}}}
	for _, test := range []struct {
		name        string
		budgets     budget.Budgets
		own, others string
		replicas    int
		want        string
	}{
		{"no budget", budget.Budgets{}, "A+ B-*", "", 2, ""},
		{"the workload has one left", budget.Budgets{Unavailable: amount(1)}, "A+ B+", "", 2, ""},
		{"one is away", budget.Budgets{Unavailable: amount(1)}, "A+ B-*", "", 2, "MaxUnavailable: 1 pods are away, 1 may be: A waits"},
		{"one is missing", budget.Budgets{Unavailable: amount(1)}, "A+ B+", "", 3, "MaxUnavailable: 1 pods are away, 1 may be: A waits"},
		{"the other zone counts for itself", budget.Budgets{UnavailablePerZone: amount(1)}, "A1+ A2+ B1-*", "", 3, ""},
		{"one of the zone is away", budget.Budgets{UnavailablePerZone: amount(1)}, "A1+ A2-* B1+", "", 3, `MaxUnavailablePerZone: 1 pods of zone "a" are away, 1 may be: A1 waits`},
		{"one without a zone counts in each", budget.Budgets{UnavailablePerZone: amount(1)}, "A1+ X-* B1+", "", 3, `MaxUnavailablePerZone: 1 pods of zone "a" are away`},
		{"the next one has no zone", budget.Budgets{UnavailablePerZone: amount(1)}, "X+ A1+ B1-*", "", 3, "MaxUnavailablePerZone: 1 pods of zone \"\" are away"},
		{"a missing one counts in the size of the zone", budget.Budgets{UnavailablePerZone: half{}}, "A1+ A2+", "", 3, ""},
		{"three members", quorum(nil), "A+ B+ C+", "", 3, ""},
		{"two healthy ones must stay", quorum(nil), "A+ B+ C+*", "", 3, "Quorum: 2 of 3 members are healthy, 2 must stay: A waits"},
		{"others help", quorum(nil), "A+ B+", "C+", 2, ""},
		{"another with the name of an own one does not", quorum(nil), "A+ B+", "B+", 2, "Quorum: 2 of 2 members"},
		{"others without the label do not", quorum(nil), "A+ B+", "c+", 2, "Quorum: 2 of 2 members"},
		{"a missing one is a member", quorum(nil), "A+ B+", "", 4, "Quorum: 2 of 4 members"},
		{"as many members as the plan says", quorum(new(9)), "A+ B+", "", 2, "Quorum: 2 of 9 members"},
		{"the next one is no member, and counts as one", quorum(nil), "a+ B+ C+ D+", "", 4, ""},
		{"one like it is down too", quorum(nil), "a+ b-* C+ D+ E+ F+", "", 6, ""},
		{"too many like it are down", quorum(nil), "a+ b-* c-* D+ E+ F+", "", 6, "Quorum: 1 of 3 members are healthy, 2 must stay: a waits"},
		{"those beside the group do not count for a member", quorum(nil), "A+ b-* c-* D+ E+", "", 5, ""},
		{"a budget of Kubernetes allows one", one, "A+ B+", "", 2, ""},
		{"one may go already", one, "A+ B+*", "", 2, "DisruptionBudget: PodDisruptionBudget pdb allows no disruption: A waits"},
		{"it counts one that is away itself", one, "A+ B-*", "", 2, ""},
		{"it does not select the next one", one, "a+ B+*", "", 2, ""},
	} {
		own := pods(t, test.own)
		r := test.budgets.Refuses(own[0], budget.Pods{Own: own, Others: pods(t, test.others), Replicas: test.replicas})
		got := r.Reason + ": " + r.Message
		if test.want == "" && r != (budget.Refusal{}) || !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s", test.name, got)
		}
	}
}

func TestImpossible(t *testing.T) {
	have := budget.Pods{Own: pods(t, "A+ B+"), Replicas: 2}
	for _, test := range []struct {
		budgets     budget.Budgets
		field, says string
	}{
		{budget.Budgets{Unavailable: amount(1), UnavailablePerZone: amount(1), Quorum: &budget.Quorum{Selector: labelled("db"), Healthy: amount(1)}}, "", ""},
		{budget.Budgets{Unavailable: amount(0)}, "maxUnavailable", "0 of 2 pods is none"},
		{budget.Budgets{UnavailablePerZone: amount(0)}, "maxUnavailablePerZone", "0 of 2 pods is none"},
		{budget.Budgets{Quorum: &budget.Quorum{Selector: labelled("db"), Healthy: amount(2)}}, "quorum.minHealthy", "2 of 2 members is 2: none may ever be away"},
		{budget.Budgets{Quorum: &budget.Quorum{Selector: labelled("other"), Healthy: amount(2)}}, "quorum.selector", "it selects none of the 2 pods of the workload: name labels that they have"},
	} {
		if field, says := test.budgets.Impossible(have); field != test.field || says != test.says {
			t.Errorf("%+v: %s: %s", test.budgets, field, says)
		}
	}
}

func TestLeft(t *testing.T) {
	q := budget.Quorum{Selector: labelled("db"), Healthy: amount(1)}
	if got := q.Left(budget.Pods{Own: pods(t, "A+ B+* c+"), Others: pods(t, "D+ E-"), Replicas: 3}); got != 2 {
		t.Fatal(got)
	}
}
