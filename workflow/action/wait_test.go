package action

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// continued sets the wait record that an engine would keep for an outcome.
func (b *harness) continued(o outcome.Outcome) {
	since := time.Now()
	if b.facts.Wait != nil {
		since = b.facts.Wait.Since
	}
	b.facts.Wait = &runtype.WaitRecord{Reason: o.Reason(), Message: o.Message(), Since: since}
}

func TestSleepIsKeptOverRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t)
		o, _ := b.run(t.Context(), t, "sleep", `{"for": "1h"}`)
		if !o.IsWait() || o.After() != time.Hour {
			t.Fatalf("first poll: %v", o)
		}
		b.continued(o)
		time.Sleep(20 * time.Minute)
		again, _ := b.run(t.Context(), t, "sleep", `{"for": "1h"}`)
		if again.After() != 40*time.Minute || again.Message() != o.Message() {
			t.Fatalf("early poll: %v", again)
		}
		time.Sleep(again.After())
		o, _ = b.run(t.Context(), t, "sleep", `{"for": "1h"}`)
		wantCode(t, o, "Done")
	})
}

func TestSleepUntilAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newHarness(t)
		at := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
		o, _ := b.run(t.Context(), t, "sleep", `{"until": "`+at+`"}`)
		if o.After() != 3*time.Hour {
			t.Fatalf("got %v", o)
		}
		o, _ = b.run(t.Context(), t, "sleep", `{"until": "1999-01-01T00:00:00+02:00"}`)
		wantCode(t, o, "Done")
		o, _ = b.run(t.Context(), t, "sleep", `{"for": "0s"}`)
		wantCode(t, o, "Done")
	})
}

func TestSignalBecomesTheOutput(t *testing.T) {
	b := newHarness(t)
	o, task := b.run(t.Context(), t, "signal", `{"name": "caught-up"}`)
	if !o.IsWait() || o.After() != 0 || o.Message() != "signal caught-up" || task.Result() != nil {
		t.Fatalf("without the signal: %v", o)
	}
	b.facts.Signals = []runtype.Signal{
		{ID: "1", Name: "other", Payload: json.RawMessage(`0`)},
		{ID: "2", Name: "caught-up", Payload: json.RawMessage(`{"lag":0}`)},
		{ID: "3", Name: "caught-up", Payload: json.RawMessage(`{"lag":9}`)},
	}
	o, task = b.run(t.Context(), t, "signal", `{"name": "caught-up"}`)
	wantCode(t, o, "Done")
	wantOutput(t, task, `{"lag":0}`)
	if s, _ := task.Signal("caught-up"); s.ID != "3" {
		t.Errorf("next unread is %q, want 3", s.ID)
	}
}

func TestSignalThatDoesNotFitIsDropped(t *testing.T) {
	b := newHarness(t)
	with := `{"name": "s", "schema": {"type": "object", "required": ["lag"], "properties": {"lag": {"type": "integer"}}}}`
	b.facts.Signals = []runtype.Signal{{ID: "1", Name: "s", Payload: json.RawMessage(`{"lag":"x"}`)}}
	o, task := b.run(t.Context(), t, "signal", with)
	wantCode(t, o, "SignalRefused")
	if !strings.Contains(o.Message(), "the payload of 1 does not fit: lag must be integer, not string") {
		t.Errorf("message %q", o.Message())
	}
	if _, left := task.Signal("s"); left {
		t.Error("the signal was not taken")
	}
	b.facts.Signals = nil
	b.continued(o)
	same, _ := b.run(t.Context(), t, "signal", with)
	if same != o {
		t.Errorf("the next poll differs: %v", same)
	}
	b.facts.Signals = []runtype.Signal{{ID: "2", Name: "s"}, {ID: "3", Name: "s", Payload: json.RawMessage(`{"lag":1}`)}}
	o, task = b.run(t.Context(), t, "signal", with)
	wantCode(t, o, "Done")
	wantOutput(t, task, `{"lag":1}`)
}

func TestDeadlineOfSignalAndApproval(t *testing.T) {
	for _, action := range []string{"signal", "approval"} {
		for onTimeout, want := range map[string]string{"fail": "WAIT_EXPIRED", "undo": "WAIT_EXPIRED", "continue": "Done"} {
			synctest.Test(t, func(t *testing.T) {
				b := newHarness(t)
				with := fmt.Sprintf(`{"name": "s", "deadline": "10m", "onTimeout": %q}`, onTimeout)
				o, _ := b.run(t.Context(), t, action, with)
				if o.After() != 10*time.Minute {
					t.Fatalf("first poll: %v", o)
				}
				b.continued(o)
				time.Sleep(4 * time.Minute)
				o, _ = b.run(t.Context(), t, action, with)
				if o.After() != 6*time.Minute {
					t.Fatalf("early poll: %v", o)
				}
				time.Sleep(6 * time.Minute)
				o, task := b.run(t.Context(), t, action, with)
				wantCode(t, o, want)
				if want == "Done" {
					wantOutput(t, task, `{"timedOut":true}`)
				}
			})
		}
	}
}

func votes(list ...string) []runtype.Signal {
	var signals []runtype.Signal
	for i, v := range list {
		actor, payload, _ := strings.Cut(v, " ")
		signals = append(signals, runtype.Signal{ID: fmt.Sprint(i), Name: "approval", Actor: strings.TrimPrefix(actor, "-"), Payload: json.RawMessage(payload)})
	}
	return signals
}

func TestApprovalCountsVotes(t *testing.T) {
	groups := func(actor string) []string {
		return map[string][]string{"dan": {"dba"}, "eve": {"ops"}}[actor]
	}
	for name, c := range map[string]struct {
		with  string
		votes []runtype.Signal
		want  string // reason or code
		out   string // output, or part of the message
		left  int    // unread signals after it
	}{
		"nobody yet":             {`{"message": "Go?"}`, nil, "AwaitingApproval", "Go?; signal approval with one of approve, reject", 0},
		"one is enough":          {`{}`, votes(`ann "approve"`, `bob "approve"`), "Done", `{"choice":"approve","actors":["ann"],"comments":{}}`, 1},
		"comment":                {`{}`, votes(`ann {"choice":"approve","comment":"fine"}`), "Done", `{"choice":"approve","actors":["ann"],"comments":{"ann":"fine"}}`, 0},
		"the same one twice":     {`{"count": 2}`, votes(`ann "approve"`, `ann "approve"`), "AwaitingApproval", "1 of 2 approve: ann", 2},
		"two distinct":           {`{"count": 2}`, votes(`ann "approve"`, `ann "approve"`, `bob "approve"`), "Done", `{"choice":"approve","actors":["ann","bob"],"comments":{}}`, 0},
		"a change of mind":       {`{"count": 2, "choices": ["blue", "green"]}`, votes(`ann "blue"`, `ann "green"`, `bob "blue"`), "AwaitingApproval", "1 of 2 blue: bob; 1 of 2 green: ann", 3},
		"not asked":              {`{"by": ["ann"]}`, votes(`bob "approve"`, `- "approve"`), "AwaitingApproval", "2 not counted", 2},
		"by group":               {`{"by": ["ann", "group:dba"]}`, votes(`eve "approve"`, `dan "approve"`), "Done", `{"choice":"approve","actors":["dan"],"comments":{}}`, 0},
		"a group is no actor":    {`{"by": ["group:dba"]}`, votes(`group:dba "approve"`), "AwaitingApproval", "1 not counted", 1},
		"nonsense":               {`{}`, votes(`ann "maybe"`, `ann 3`, `ann {}`, `ann `), "AwaitingApproval", "4 not counted", 4},
		"reject":                 {`{"count": 2}`, votes(`ann "approve"`, `bob {"choice":"reject","comment":"not today"}`, `cat "approve"`), "Rejected", "rejected by bob: not today", 1},
		"reject and go on":       {`{"onReject": "continue"}`, votes(`bob "reject"`), "Done", `{"choice":"reject","actors":["bob"],"comments":{}}`, 0},
		"unnamed actor":          {`{"count": 2}`, votes(`- "approve"`, `- "approve"`), "AwaitingApproval", "1 of 2 approve: an unnamed actor", 2},
		"decided by an old vote": {`{"count": 2}`, votes(`ann "approve"`, `bob "approve"`, `ann "reject"`), "Done", `{"choice":"approve","actors":["ann","bob"],"comments":{}}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newHarness(t)
			b.options.Groups = groups
			b.facts.Signals = c.votes
			o, task := b.run(t.Context(), t, "approval", c.with)
			wantCode(t, o, c.want)
			if o.IsDone() {
				wantOutput(t, task, c.out)
			} else if !strings.Contains(o.Message(), c.out) {
				t.Errorf("message %q lacks %q", o.Message(), c.out)
			}
			left := 0
			for _, ok := task.Signal("approval"); ok; _, ok = task.Signal("approval") {
				left++
			}
			if left != c.left {
				t.Errorf("%d signals left, want %d", left, c.left)
			}
		})
	}
}

func TestRejectionIsAFailureOnTheNextPoll(t *testing.T) {
	b := newHarness(t)
	b.facts.Signals = votes(`bob {"choice":"reject","comment":"not today"}`)
	o, task := b.run(t.Context(), t, "approval", `{}`)
	if !o.IsWait() || o.After() <= 0 || o.After() > time.Millisecond {
		t.Fatalf("the poll that takes the votes: %v", o)
	}
	if len(task.Signals("approval")) != 1 {
		t.Fatal("the bench lost the signal")
	}
	b.continued(o)
	b.facts.Signals = nil // the wait consumed it
	o, _ = b.run(t.Context(), t, "approval", `{}`)
	wantCode(t, o, "REJECTED")
	if o.Message() != "rejected by bob: not today" {
		t.Errorf("message %q", o.Message())
	}
	b.facts.Wait = nil // resumed
	o, _ = b.run(t.Context(), t, "approval", `{}`)
	wantCode(t, o, "AwaitingApproval")
}
