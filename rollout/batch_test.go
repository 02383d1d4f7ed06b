package rollout_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/rollout"
	"pgregory.net/rapid"
)

func percents(shares ...int) []rollout.Batch {
	var all []rollout.Batch
	for _, n := range shares {
		all = append(all, rollout.Batch{Replicas: rollout.Percent(n)})
	}
	return all
}

func TestTarget(t *testing.T) {
	rest := rollout.Batch{}
	for _, test := range []struct {
		name             string
		plan             rollout.Plan
		mode             rollout.Mode
		original, target int
		want             []int // after batch -1, 0, 1, … and one beyond the last
	}{
		{"shares of five", rollout.Plan{RolloutBatches: percents(20, 40, 30, 10)}, rollout.Rollout, 0, 5, []int{0, 1, 3, 5, 5, 5}},
		{"shares of one", rollout.Plan{RolloutBatches: percents(20, 40, 30, 10)}, rollout.Rollout, 0, 1, []int{0, 1, 1, 1, 1, 1}},
		{"eight in five", rollout.Plan{NumBatches: new(5)}, rollout.Rollout, 0, 8, []int{0, 1, 2, 4, 6, 8, 8}},
		{"four in five", rollout.Plan{NumBatches: new(5)}, rollout.Rollout, 0, 4, []int{0, 0, 1, 2, 3, 4, 4}},
		{"one batch", rollout.Plan{}, rollout.Rollout, 0, 7, []int{0, 7, 7}},
		{"no pods", rollout.Plan{NumBatches: new(2)}, rollout.Rollout, 0, 0, []int{0, 0, 0, 0}},
		{"numbers and a share", rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(1)}, {Replicas: rollout.Percent(50)}, rest}}, rollout.Rollout, 0, 5, []int{0, 1, 4, 5, 5}},
		{"more than there is", rollout.Plan{RolloutBatches: []rollout.Batch{{Replicas: rollout.Int(9)}, rest}}, rollout.Rollout, 0, 5, []int{0, 5, 5, 5}},
		{"up", rollout.Plan{RolloutBatches: percents(50, 50)}, rollout.Scale, 3, 8, []int{3, 6, 8, 8}},
		{"down", rollout.Plan{RolloutBatches: percents(50, 50)}, rollout.Scale, 8, 3, []int{8, 5, 3, 3}},
		{"equal", rollout.Plan{RolloutBatches: percents(50, 50)}, rollout.Scale, 4, 4, []int{4, 4, 4, 4}},
	} {
		var got []int
		for k := -1; k < len(test.want)-1; k++ {
			got = append(got, test.plan.Target(test.mode, test.original, test.target, k))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, not %v", test.name, got, test.want)
		}
	}
}

func TestVerify(t *testing.T) {
	for _, test := range []struct {
		name    string
		batches []rollout.Batch
		total   int
		want    string // a part of the message; empty: none
	}{
		{"exact numbers", batches(1, 2, 2), 5, ""},
		{"too few", batches(1, 2, 1), 5, "the batches take 4 pods, and there are 5"},
		{"too many before the last", batches(3, 3, 1), 5, "must leave"},
		{"all before the last", batches(3, 2, 0), 5, "must leave"},
		{"a share of all before the last", percents(60, 40, 0), 5, "must leave"},
		{"rounding does not count", percents(60, 39, 1), 5, ""},
		{"more than 100", percents(60, 30, 20), 5, "110%"},
		{"the rest", []rollout.Batch{{Replicas: rollout.Int(4)}, {}}, 5, ""},
		{"an absent size before the last", []rollout.Batch{{}, {Replicas: rollout.Int(4)}}, 5, "only the last batch"},
		{"no pods", percents(50, 50), 0, ""},
		{"no pods, a number", batches(1, 0), 0, "must leave"},
		{"an empty list", []rollout.Batch{}, 5, "empty"},
	} {
		err := rollout.Plan{RolloutBatches: test.batches}.Verify(rollout.Rollout, 0, test.total)
		switch {
		case test.want == "" && err != nil, test.want != "" && err == nil, err != nil && !strings.Contains(err.Error(), test.want):
			t.Errorf("%s: %v, wanted %q", test.name, err, test.want)
		case err != nil && fault.Of(err) != rollout.PlanInvalid:
			t.Errorf("%s: %v", test.name, err)
		}
	}
	if err := (rollout.Plan{NumBatches: new(3), RolloutBatches: batches(1, 1)}).Verify(rollout.Rollout, 0, 2); err == nil {
		t.Error("three batches, two entries")
	}
}

// TestTargetsNeverFall: whatever the plan and the total, T never falls and ends at the total.
func TestTargetsNeverFall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, 200).Draw(t, "total")
		var plan rollout.Plan
		if rapid.Bool().Draw(t, "dealt") {
			plan.NumBatches = new(rapid.IntRange(1, 20).Draw(t, "number"))
		} else {
			for i := range rapid.IntRange(1, 20).Draw(t, "number") {
				size := rollout.Int(rapid.IntRange(0, 30).Draw(t, fmt.Sprint("size ", i)))
				size.Percent = rapid.Bool().Draw(t, fmt.Sprint("percent ", i))
				plan.RolloutBatches = append(plan.RolloutBatches, rollout.Batch{Replicas: size})
			}
		}
		last := 0
		for k := range 21 {
			got := plan.Target(rollout.Rollout, 0, total, k)
			if got < last || got > total {
				t.Fatalf("T(%d) is %d after %d", k, got, last)
			}
			last = got
		}
		if last != total {
			t.Fatalf("it ends at %d of %d", last, total)
		}
	})
}

func TestParsePlan(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"a plan", `{"rolloutBatches":[{"replicas":1,"soak":"1m"},{"replicas":"50%"},{}],"batchPartition":0,"disruption":{"quorum":{"selector":{"matchLabels":{"app":"db"}},"minHealthy":"majority"}}}`, ""},
		{"an unknown field", `{"rolloutBatches":[{"replica":1}]}`, "rolloutBatches[0].replica: there is no such field"},
		{"another case", `{"Paused":true}`, "it is spelled paused"},
		{"a text for a number", `{"targetSize":"5"}`, "targetSize: it must be a whole number, not 5"},
		{"no percentage", `{"rolloutBatches":[{"replicas":"half"}]}`, `rolloutBatches[0].replicas: "half" is neither`},
		{"a fraction", `{"rolloutBatches":[{"replicas":1.5}]}`, `rolloutBatches[0].replicas: 1.5 is neither`},
		{"no duration", `{"soak":"5"}`, `soak: "5" is no duration`},
		{"a number for a duration", `{"soak":5}`, `soak: a number is not allowed here`},
		{"a list for an object", `{"disruption":[]}`, "disruption: it must be an object, not a list"},
		{"an object for a list", `{"gates":{}}`, "gates: it must be a list, not an object"},
		{"no decimal", `{"canaryMetric":[{"metricsRange":{"min":"1e3"}}]}`, `canaryMetric[0].metricsRange.min: "1e3" is no decimal`},
		{"no plan", `[]`, "a plan is a JSON object, not a list"},
		{"no JSON", `{`, "the plan is not JSON"},
		{"two plans", `{} {}`, "more text"},
	} {
		p, err := rollout.ParsePlan([]byte(test.text))
		if test.want != "" {
			if err == nil || !strings.Contains(err.Error(), test.want) || fault.Of(err) != rollout.PlanInvalid {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		again, err := rollout.ParsePlan(text)
		if err != nil || fmt.Sprintf("%+v", again) == "" {
			t.Errorf("%s: %s: %v", test.name, text, err)
		}
	}
}

func TestProblems(t *testing.T) {
	for _, test := range []struct{ text, path string }{
		{`{"numBatches":0}`, "numBatches"},
		{`{"numBatches":201}`, "numBatches"},
		{`{"numBatches":1,"rolloutBatches":[{"replicas":1},{}]}`, "numBatches"},
		{`{"targetSize":-1}`, "targetSize"},
		{`{"rolloutStrategy":"Both"}`, "rolloutStrategy"},
		{`{"rolloutBatches":[]}`, "rolloutBatches"},
		{`{"rolloutBatches":[{},{}]}`, "rolloutBatches[0].replicas"},
		{`{"rolloutBatches":[{"replicas":-1}]}`, "rolloutBatches[0].replicas"},
		{`{"rolloutBatches":[{"replicas":"101%"}]}`, "rolloutBatches[0].replicas"},
		{`{"rolloutBatches":[{"replicas":"60%"},{"replicas":"50%"}]}`, "rolloutBatches"},
		{`{"rolloutBatches":[{"podList":["a"],"pods":{"role":"x"}}]}`, "rolloutBatches[0].pods"},
		{`{"rolloutBatches":[{"pods":{}}]}`, "rolloutBatches[0].pods"},
		{`{"rolloutBatches":[{"pods":{"ordinals":["3-2"]}}]}`, "rolloutBatches[0].pods.ordinals[0]"},
		{`{"rolloutBatches":[{"podList":["a"]},{"podList":["a"]}]}`, "rolloutBatches[1].podList"},
		{`{"rolloutBatches":[{"pods":{"ordinals":["1-3"]}},{"pods":{"ordinals":["3"]}}]}`, "rolloutBatches[1].pods.ordinals"},
		{`{"rolloutBatches":[{"batchRolloutWebhooks":[{"name":"a","type":"event","url":"http://a"}]}]}`, "rolloutBatches[0].batchRolloutWebhooks[0].type"},
		{`{"rolloutBatches":[{"pods":{"role":"a"}}]}`, "rolloutBatches[0].pods.role"},
		{`{"gates":[{"name":"a","when":"BeforeBatch","expression":"true"}],"rolloutBatches":[{"gates":[{"name":"a","when":"AfterBatch","expression":"true"}]}]}`, "rolloutBatches[0].gates[0].name"},
		{`{"rolloutWebhooks":[{"name":"a","type":"pre-batch-rollout","url":"http://a"}],"rolloutBatches":[{"batchRolloutWebhooks":[{"name":"a","type":"pre-batch-rollout","url":"http://b"}]}]}`, "rolloutBatches[0].batchRolloutWebhooks[0].name"},
		{`{"probes":[{"name":"a","period":"1ms","tcp":{"port":1}}]}`, "probes[0].period"},
		{`{"probes":[{"name":"a","timeout":"6m","tcp":{"port":1}}]}`, "probes[0].timeout"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a","timeout":"24h"}]}`, "rolloutWebhooks[0].timeout"},
		{`{"batchPartition":1}`, "batchPartition"},
		{`{"numBatches":2,"batchPartition":2}`, "batchPartition"},
		{`{"batchDeadline":"1ms"}`, "batchDeadline"},
		{`{"soak":"-1s"}`, "soak"},
		{`{"onFailure":"explode"}`, "onFailure"},
		{`{"rollback":{"mode":"Fast"}}`, "rollback.mode"},
		{`{"rolloutWebhooks":[{"name":"a/b","type":"event","url":"http://a"}]}`, "rolloutWebhooks[0].name"},
		{`{"gates":[{"name":"a b","when":"BeforeBatch","expression":"true"}]}`, "gates[0].name"},
		{`{"probes":[{"name":"-a","tcp":{"port":1}}]}`, "probes[0].name"},
		{`{"canaryMetric":[{"name":"aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeeeeeeeeeffffffffffgggg"}]}`, "canaryMetric[0].name"},
		{`{"rolloutWebhooks":[{"name":"","type":"event","url":"http://a"}]}`, "rolloutWebhooks[0].name"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a"},{"name":"a","type":"event","url":"http://a"}]}`, "rolloutWebhooks[1].name"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event"}]}`, "rolloutWebhooks[0]"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a","flow":"b"}]}`, "rolloutWebhooks[0]"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"ftp://a"}]}`, "rolloutWebhooks[0].url"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://me:pw@a"}]}`, "rolloutWebhooks[0].url"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a#b"}]}`, "rolloutWebhooks[0].url"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a","method":"PATCH"}]}`, "rolloutWebhooks[0].method"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a","expectedStatus":[99]}]}`, "rolloutWebhooks[0].expectedStatus[0]"},
		{`{"rolloutWebhooks":[{"name":"a","type":"event","url":"http://a","input":{}}]}`, "rolloutWebhooks[0].input"},
		{`{"canaryMetric":[{"name":"a","metricsRange":{},"provider":{"prometheus":{"address":"http://a","query":"b"}}}]}`, "canaryMetric[0].metricsRange"},
		{`{"canaryMetric":[{"name":"a","metricsRange":{"min":2,"max":1},"provider":{"prometheus":{"address":"http://a","query":"b"}}}]}`, "canaryMetric[0].metricsRange"},
		{`{"canaryMetric":[{"name":"a","metricsRange":{"min":2},"provider":{"prometheus":{"address":"http://a"}}}]}`, "canaryMetric[0]"},
		{`{"canaryMetric":[{"name":"a","metricsRange":{"min":2}}]}`, "canaryMetric[0].provider.prometheus"},
		{`{"canaryMetric":[{"name":"a","interval":"1ms","metricsRange":{"min":2},"provider":{"prometheus":{"address":"http://a","query":"b"}}}]}`, "canaryMetric[0].interval"},
		{`{"gates":[{"name":"a","when":"Never","expression":"true"}]}`, "gates[0].when"},
		{`{"gates":[{"name":"a","when":"BeforePod","expression":" "}]}`, "gates[0].expression"},
		{`{"probes":[{"name":"a"}]}`, "probes[0]"},
		{`{"probes":[{"name":"a","exec":{"command":[]}}]}`, "probes[0].exec.command"},
		{`{"probes":[{"name":"a","tcp":{"port":0}}]}`, "probes[0].tcp.port"},
		{`{"probes":[{"name":"a","http":{"port":1,"path":"a"}}]}`, "probes[0].http.path"},
		{`{"disruption":{"quorum":{"selector":{},"minHealthy":0}}}`, "disruption.quorum.minHealthy"},
		{`{"disruption":{"zoneKey":"a"}}`, "disruption.zoneKey"},
		{`{"disruption":{"maxUnavailablePerZone":1,"zoneKey":"a b"}}`, "disruption.zoneKey"},
		{`{"disruption":{"quorum":{"selector":{"matchLabels":{"app":"???"}},"minHealthy":1}}}`, "disruption.quorum.selector.matchLabels.app"},
		{`{"disruption":{"quorum":{"selector":{"matchLabels":{"a/b/c":"x"}},"minHealthy":1}}}`, "disruption.quorum.selector.matchLabels.a/b/c"},
		{`{"disruption":{"quorum":{"selector":{"matchExpressions":[{"key":"-a","operator":"Exists"}]},"minHealthy":1}}}`, "disruption.quorum.selector.matchExpressions[0].key"},
		{`{"disruption":{"quorum":{"selector":{"matchExpressions":[{"key":"a","operator":"In","values":["b","c "]}]},"minHealthy":1}}}`, "disruption.quorum.selector.matchExpressions[0].values[1]"},
		{`{"rolloutBatches":[{"pods":{"selector":{"matchLabels":{"A.example/b":"x"}}}},{}]}`, "rolloutBatches[0].pods.selector.matchLabels.A.example/b"},
		{`{"order":{"roleLabel":"my role","roles":["a"]}}`, "order.roleLabel"},
		{`{"disruption":{"quorum":{"selector":{"matchExpressions":[{"key":"a","operator":"In"}]},"minHealthy":1}}}`, "disruption.quorum.selector.matchExpressions[0].values"},
		{`{"order":{"roles":["a"]}}`, "order"},
		{`{"order":{"roleLabel":"r","roles":[]}}`, "order.roles"},
		{`{"order":{"roleLabel":"r","roles":["a","a"]}}`, "order.roles[1]"},
		{`{"order":{"roleProbe":"r","roles":["a"]}}`, "order.roleProbe"},
		{`{"order":{"roleLabel":"r","roles":["a"],"handover":{}}}`, "order.handover"},
	} {
		p, err := rollout.ParsePlan([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		found := p.Problems()
		if !slices.ContainsFunc(found, func(p rollout.Problem) bool { return p.Path == test.path && p.Code == "PLAN_INVALID" }) {
			t.Errorf("%s: %v, wanted %s", test.text, found, test.path)
		}
	}
	if found := (rollout.Plan{}).Problems(); found != nil {
		t.Errorf("the zero plan: %v", found)
	}
}

func TestRevisions(t *testing.T) {
	source, target := rollout.Revisions("shop", 1)
	if source != "" || target != "shop-v1" {
		t.Error(source, target)
	}
	if source, target = rollout.Revisions("shop", 3); source != "shop-v2" || target != "shop-v3" {
		t.Error(source, target)
	}
	for _, test := range []struct {
		named          string
		target, source []string
		want           string
	}{
		{"", []string{"db"}, nil, "db"},
		{"", []string{"db", "web"}, []string{"db"}, "db"},
		{"", []string{"db", "web"}, []string{"db", "web"}, ""},
		{"web", []string{"db", "web"}, []string{"db", "web"}, "web"},
		{"old", []string{"db"}, []string{"db"}, ""},
		{"", []string{"db"}, []string{"web"}, ""},
	} {
		got, err := rollout.Component(test.named, test.target, test.source)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}
