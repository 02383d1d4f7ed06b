package cloudstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
)

// The states of a job.
const (
	jobOpen   = 0
	jobFailed = 2
)

// job is the answer of queryAsyncJobResult.
type job struct {
	ID       text            `json:"jobid"`
	Status   *number         `json:"jobstatus"`
	Result   json.RawMessage `json:"jobresult"`
	Code     number          `json:"jobresultcode"`
	Command  text            `json:"cmd"`
	Instance text            `json:"jobinstanceid"`
}

// err returns the failure of the job.
func (j *job) err() error {
	if *j.Status != jobFailed {
		return nil
	}
	var failed failure
	if len(j.Result) > 0 && json.Unmarshal(j.Result, &failed) != nil { // some versions send plain text
		var reason text
		if json.Unmarshal(j.Result, &reason) == nil {
			failed.Text = reason
		}
	}
	r := &refusal{Command: j.command(), Code: int(failed.Code), Text: string(failed.Text)}
	if r.Code == 0 {
		r.Code = int(j.Code)
	}
	return r.fault()
}

// command returns the last part of the command, which may be a class name.
func (j *job) command() string {
	name := string(j.Command)
	name = name[strings.LastIndexByte(name, '.')+1:]
	if name == "" {
		return "job"
	}
	return clean(name)
}

// createdID returns the id of the job's resource.
func (j *job) createdID() string {
	if j.Instance != "" {
		return string(j.Instance)
	}
	var result map[string]json.RawMessage
	if json.Unmarshal(j.Result, &result) != nil {
		return ""
	}
	for _, raw := range result {
		var of struct {
			ID text `json:"id"`
		}
		if json.Unmarshal(raw, &of) == nil && of.ID != "" {
			return string(of.ID)
		}
	}
	return ""
}

// job reads a job. errNoJob if the server does not know the id.
func (p *Provider) job(ctx context.Context, id, zone string) (*job, error) {
	var j job
	err := p.call(ctx, request{command: "queryAsyncJobResult", zone: zone, params: params{"jobid": id}}, &j)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.unknownID():
		return nil, fmt.Errorf("%w: %w", errNoJob, err)
	case err != nil:
		return nil, err
	case j.Status == nil || *j.Status < jobOpen || *j.Status > jobFailed:
		return nil, unreadable("queryAsyncJobResult", "it has no state")
	case j.ID != "" && !strings.EqualFold(string(j.ID), id):
		return nil, unreadable("queryAsyncJobResult", "it is another job")
	}
	return &j, nil
}

var errNoJob = errors.New("the server knows no such job")

// joinJobs combines several jobs into the job of one Call. Poll follows them in order.
func joinJobs(jobs ...string) string {
	var some []string
	for _, id := range jobs {
		if id != "" {
			some = append(some, id)
		}
	}
	return strings.Join(some, ",")
}

// Poll follows the jobs of a call. ErrGone if the server does not know a job: the caller
// must read the resource itself.
func (p *Provider) Poll(ctx context.Context, c cluster.Call) (cluster.Progress, error) {
	progress := cluster.Progress{Done: true, Ref: c.Ref}
	if c.Done || c.Job == "" {
		return progress, ctx.Err()
	}
	for id := range strings.SplitSeq(c.Job, ",") {
		j, err := p.job(ctx, id, c.Ref.Zone)
		if errors.Is(err, errNoJob) {
			if err := p.checkAPI(ctx, c.Ref.Zone); err != nil {
				return cluster.Progress{}, err
			}
			return cluster.Progress{}, fmt.Errorf("job %s: %w", id, cluster.ErrGone)
		}
		if err != nil {
			return cluster.Progress{}, err
		}
		if *j.Status == jobOpen {
			return cluster.Progress{Ref: c.Ref, PollAfter: p.pace.next(c.Job)}, nil
		}
		if progress.Err = j.err(); progress.Err != nil {
			break
		}
	}
	p.pace.done(c.Job)
	return progress, nil
}
