package measure

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow"
)

// ReadingResult is the cost of reading one run of many steps.
type ReadingResult struct {
	Store     string  `json:"store"`
	Steps     int     `json:"steps"`
	LoadMs    float64 `json:"loadMs"`    // of the whole run from the store
	ViewMs    float64 `json:"viewMs"`    // all steps as view converts them
	EncodeMs  float64 `json:"encodeMs"`  // all steps as JSON
	ReadingMs float64 `json:"readingMs"` // the three together
	Bytes     int     `json:"bytes"`     // of that JSON
	AnswerMs  float64 `json:"answerMs"`  // the answer of /v1/runs/{id}, which holds the newest steps
}

// Reading executes one run with the given number of steps and reads it: medians of nine.
func (b *Bench) Reading(ctx context.Context, name string, steps int) (ReadingResult, error) {
	const subject = "bench/read/1"
	r := ReadingResult{Store: name, Steps: steps}
	if err := b.one(ctx, subject); err != nil {
		return r, err
	}
	id := workflow.RunID(subject, benchFlow, "1")
	var load, shown, encoded, whole, answer []time.Duration
	for range 9 {
		began := time.Now()
		run, err := b.Engine.Get(ctx, id)
		if err != nil {
			return r, err
		}
		loaded := time.Now()
		all := view.OfRun(run, workflow.FlowFor(b.Engine.Flows(), run.Flow, run.Subject))
		viewed := time.Now()
		data, err := json.Marshal(all)
		if err != nil {
			return r, err
		}
		ended := time.Now()
		if _, err := json.Marshal(all.Newest(view.StepPage)); err != nil {
			return r, err
		}
		load, shown, encoded = append(load, loaded.Sub(began)), append(shown, viewed.Sub(loaded)), append(encoded, ended.Sub(viewed))
		whole, answer = append(whole, ended.Sub(began)), append(answer, viewed.Sub(began)+time.Since(ended))
		r.Bytes = len(data)
	}
	median := func(all []time.Duration) float64 { slices.Sort(all); return Quantile(all, 0.5) }
	r.LoadMs, r.ViewMs, r.EncodeMs, r.ReadingMs, r.AnswerMs = median(load), median(shown), median(encoded), median(whole), median(answer)
	return r, nil
}
