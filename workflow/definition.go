package workflow

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/workflow/runstore"
)

// RunID returns the id of the run of a request: a hash of subject, flow and request id.
func RunID(subject, flow, requestID string) string {
	h := sha256.New()
	for _, part := range []string{subject, flow, requestID} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return lowerBase32.EncodeToString(h.Sum(nil)[:16])
}

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Hash returns the content hash of a flow: of everything that decides what is executed. Retries,
// timeouts and descriptions are not part of it.
func Hash(flow Flow) (string, error) {
	_, hash, err := canonical(&flow)
	return hash, err
}

// DefinitionOf returns the definition of a flow as a store keeps it.
func DefinitionOf(flow Flow) (runstore.Definition, error) {
	data, hash, err := canonical(&flow)
	return runstore.Definition{Hash: hash, Flow: flow.Name, Version: flow.Version, Data: data, Source: flow.Source}, err
}

func canonical(flow *Flow) (data []byte, hash string, err error) {
	d := flowData{Name: flow.Name, FromFirst: flow.RecoverFromFirstStep, Result: resultData(flow), Steps: stepsData(flow.Steps), Finally: stepsData(flow.Finally)}
	if data, err = json.Marshal(d); err != nil {
		return nil, "", fmt.Errorf("%s: its definition does not encode: %w", flow.Name, err)
	}
	sum := sha256.Sum256(data)
	return data, hex.EncodeToString(sum[:]), nil
}

func resultData(flow *Flow) string {
	if flow.Result != nil && flow.ResultText == "" {
		return "go"
	}
	return flow.ResultText
}

// flowData is the canonical, expanded definition.
type flowData struct {
	Name      string     `json:"name"`
	FromFirst bool       `json:"fromFirst,omitempty"`
	Result    string     `json:"result,omitempty"`
	Steps     []stepData `json:"steps"`
	Finally   []stepData `json:"finally,omitempty"`
}

type stepData struct {
	Name     string          `json:"name"`
	Go       bool            `json:"go,omitempty"`
	Uses     string          `json:"uses,omitempty"`
	With     json.RawMessage `json:"with,omitempty"`
	Undo     string          `json:"undo,omitempty"`
	UndoWith json.RawMessage `json:"undoWith,omitempty"`
	When     string          `json:"when,omitempty"`
	NoReturn bool            `json:"noReturn,omitempty"`
	Wait     *waitData       `json:"wait,omitempty"`
	Parallel int             `json:"parallel,omitempty"`
	ForEach  *loopData       `json:"forEach,omitempty"`
	Open     *stepData       `json:"open,omitempty"`
	Close    *stepData       `json:"close,omitempty"`
	Flow     string          `json:"flow,omitempty"`
	Subject  string          `json:"subject,omitempty"`
	Steps    []stepData      `json:"steps,omitempty"`
}

type waitData struct {
	For       time.Duration   `json:"for,omitempty"`
	Until     string          `json:"until,omitempty"`
	Signal    string          `json:"signal,omitempty"`
	Schema    json.RawMessage `json:"schema,omitempty"`
	Condition string          `json:"condition,omitempty"`
	Deadline  time.Duration   `json:"deadline,omitempty"`
	OnTimeout OnTimeout       `json:"onTimeout,omitempty"`
}

type loopData struct {
	List string `json:"list"`
	As   string `json:"as,omitempty"`
	Key  string `json:"key,omitempty"`
	Max  int    `json:"max,omitempty"`
}

func stepsData(steps []Step) []stepData {
	var all []stepData
	for i := range steps {
		all = append(all, *stepOf(&steps[i]))
	}
	return all
}

func stepOf(s *Step) *stepData {
	if s == nil {
		return nil
	}
	d := &stepData{
		Name: s.Name, Go: s.Do != nil, Uses: s.Uses, With: s.With, When: s.WhenText, NoReturn: s.NoReturn,
		Parallel: s.Parallel, Open: stepOf(s.Open), Close: stepOf(s.Close), Flow: s.Flow, Subject: s.FlowSubjectText, Steps: stepsData(s.Steps),
	}
	switch {
	case s.Undo != nil:
		d.Undo = "go"
	case s.UndoCall != nil:
		d.Undo, d.UndoWith = s.UndoCall.Uses, s.UndoCall.With
	}
	if w := s.Wait; w != nil {
		d.Wait = &waitData{For: w.For, Until: w.UntilText, Signal: w.Signal, Condition: w.ConditionText, Deadline: w.Deadline, OnTimeout: w.OnTimeout}
		if w.Schema != nil {
			d.Wait.Schema, _ = w.Schema.MarshalJSON()
		}
	}
	if l := s.ForEach; l != nil {
		d.ForEach = &loopData{List: l.ListText, As: l.As, Key: l.KeyText, Max: l.Max}
	}
	return d
}

// rebuild returns a flow with the structure of a stored definition and the functions of the loaded
// flow, matched by path. A step that the loaded flow does not have fails with ACTION_MISSING when
// the run reaches it.
func rebuild(data []byte, loaded *Flow) (*Flow, error) {
	var d flowData
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("the stored definition: %w", err)
	}
	known := map[string]*Step{}
	var index func(steps []Step, path string)
	index = func(steps []Step, path string) {
		for i := range steps {
			s := &steps[i]
			known[join(path, s.Name)] = s
			index(s.Steps, join(path, s.Name))
			for _, end := range []*Step{s.Open, s.Close} {
				if end != nil {
					index([]Step{*end}, join(path, s.Name))
				}
			}
		}
	}
	index(loaded.Steps, "")
	index(loaded.Finally, "")
	flow := *loaded
	flow.RecoverFromFirstStep = d.FromFirst
	flow.Steps, flow.Finally = reshape(d.Steps, known, ""), reshape(d.Finally, known, "")
	return &flow, nil
}

func reshape(data []stepData, known map[string]*Step, path string) []Step {
	var steps []Step
	for _, d := range data {
		steps = append(steps, reshapeOne(d, known, path))
	}
	return steps
}

func reshapeOne(d stepData, known map[string]*Step, path string) Step {
	here := join(path, d.Name)
	s := Step{}
	if k := known[here]; k != nil {
		s = *k
	}
	s.Name, s.With, s.NoReturn, s.Parallel, s.Flow = d.Name, d.With, d.NoReturn, d.Parallel, d.Flow
	s.Uses = d.Uses
	if d.Go && s.Do == nil {
		s.Uses = d.Name + " (a Go step that no longer exists)"
	}
	if !d.Go {
		s.Do = nil
	}
	if s.Steps = reshape(d.Steps, known, here); s.Steps != nil {
		s.Do, s.Uses = nil, ""
	}
	for end, target := range map[*stepData]**Step{d.Open: &s.Open, d.Close: &s.Close} {
		if end != nil {
			step := reshapeOne(*end, known, here)
			*target = &step
		}
	}
	return s
}
