package cloudstack

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

func jobCommands() []*command {
	return []*command{
		{name: "queryAsyncJobResult", description: "returns the state of a job", related: "listAsyncJobs", params: []parameter{
			{name: "jobid", kind: id, description: "the id of the job", required: true, uuid: true},
		}, response: jobFields, run: queryJob},
		{name: "listAsyncJobs", description: "lists jobs, newest first", related: "queryAsyncJobResult", params: slices.Concat([]parameter{keyword}, ownerFilters, paging), response: jobFields, run: listJobs},
	}
}

var jobFields = []field{
	{name: "jobid", kind: "string", description: "the id of the job"},
	{name: "cmd", kind: "string", description: "the command"},
	{name: "accountid", kind: "string", description: "the account that owns it"},
	{name: "account", kind: "string", description: "the name of that account"},
	{name: "domainid", kind: "string", description: "its domain"},
	{name: "domain", kind: "string", description: "the name of the domain"},
	{name: "userid", kind: "string", description: "the account that requested it"},
	{name: "jobstatus", kind: "integer", description: "0 open, 1 done, 2 failed"},
	{name: "jobprocstatus", kind: "integer", description: "always 0"},
	{name: "jobresultcode", kind: "integer", description: "0, or the code of the failure"},
	{name: "jobresulttype", kind: "string", description: "object"},
	{name: "jobresult", kind: "object", description: "its result; absent while it is open"},
	{name: "jobinstancetype", kind: "string", description: "the type of the object that it works on"},
	{name: "jobinstanceid", kind: "string", description: "the id of that object"},
	{name: "created", kind: "date", description: "when it was requested"},
	{name: "waitingstep", kind: "string", description: "while it is open: the step that waits"},
	{name: "waitingfor", kind: "string", description: "what that step waits for"},
	{name: "waitingsince", kind: "date", description: "since when"},
	{name: "waitinguntil", kind: "date", description: "until when at most"},
	{name: "nextattempt", kind: "date", description: "when it checks again"},
	{name: "reasoncode", kind: "string", description: "the fault because of which the provider cannot be read"},
	{name: "reason", kind: "string", description: "the message of that fault"},
	{name: "completed", kind: "date", description: "when it ended"},
}

func queryJob(ctx context.Context, c *call) (any, error) {
	j, err := c.options.Clusters.Job(ctx, c.who, c.values.text["jobid"])
	if err != nil {
		return nil, err
	}
	return c.job(ctx, j)
}

func listJobs(ctx context.Context, c *call) (any, error) {
	p, err := c.page()
	if err != nil {
		return nil, err
	}
	who, q, err := c.narrow(ctx)
	if err != nil {
		return nil, err
	}
	switch { // jobs are for owners and operators
	case !who.Operator && q.AccountID != "" && q.AccountID != who.Owner.AccountID:
		return nil, cluster.AccessRefused.Errorf("jobs of others are for operators")
	case !who.Operator:
		who.Scope = cluster.Scope{AccountID: who.Owner.AccountID}
	case q.AccountID != "":
		who.Scope = cluster.Scope{AccountID: q.AccountID}
	case q.DomainIDs != nil:
		who.Scope = cluster.Scope{DomainIDs: q.DomainIDs}
	}
	jobs, total, err := c.options.Clusters.Jobs(ctx, who, cluster.JobQuery{Keyword: c.values.text["keyword"], Offset: p.offset, Limit: p.limit})
	if err != nil {
		return nil, err
	}
	items := make([]object, 0, len(jobs))
	for i := range jobs {
		jobs[i].Password = "" // only queryAsyncJobResult returns it
		o, err := c.job(ctx, &jobs[i])
		if err != nil {
			return nil, err
		}
		items = append(items, o)
	}
	return listAnswer("asyncjobs", items, total), nil
}

// job returns a job in the form that clients poll.
func (c *call) job(ctx context.Context, j *cluster.Job) (object, error) {
	account, domain, err := c.namesOf(ctx, j.Owner)
	if err != nil {
		return nil, err
	}
	kube := strings.Contains(j.Command, "Kubernetes")
	o := object{
		"jobid": j.ID, "cmd": j.Command, "jobstatus": int(j.Status), "jobprocstatus": 0, "jobresultcode": 0, "created": date(j.Created),
		"jobinstancetype": map[bool]string{false: "ContainerCluster", true: "KubernetesCluster"}[kube],
	}
	o.set("accountid", j.Owner.AccountID)
	o.set("account", account)
	o.set("domainid", j.Owner.DomainID)
	o.set("domain", domain)
	o.set("userid", j.Owner.AccountID)
	o.set("jobinstanceid", j.Cluster)
	if j.Status == cluster.JobOpen {
		return o, c.addWaiting(ctx, j, o)
	}
	o["jobresulttype"] = "object"
	if !j.Completed.IsZero() {
		o["completed"] = date(j.Completed)
	}
	if j.Status == cluster.JobFailed {
		code := codeOfFault(j.Code)
		o["jobresultcode"] = code
		body := errorBody{UUIDs: []string{}, Code: code, Detail: detailCodes[code], Text: jobText(j, c.who.Operator)}
		o["jobresult"] = body
		return o, nil
	}
	o["jobresult"], err = c.jobResult(ctx, j, kube)
	return o, err
}

// addWaiting adds to an open job what it waits for.
func (c *call) addWaiting(ctx context.Context, j *cluster.Job, o object) error {
	standing, err := c.options.Clusters.Explanation(ctx, j.Cluster)
	if err != nil {
		return err
	}
	if w := standing.Waiting; w != nil {
		o.set("waitingstep", w.Step)
		o.set("waitingfor", c.waitingText(w))
		o["waitingsince"] = date(w.Since)
		if !w.Until.IsZero() {
			o["waitinguntil"] = date(w.Until)
		}
		if !w.Next.IsZero() {
			o["nextattempt"] = date(w.Next)
		}
	}
	if u := standing.Unseen; u != nil {
		o.set("reasoncode", u.Code)
		o.set("reason", textFor(fault.Code(u.Code), u.Text, c.who.Operator)+" (since "+date(u.Since)+")")
	}
	return nil
}

// jobText returns the text of a failed job: the message, the step and the remedy.
func jobText(j *cluster.Job, operator bool) string {
	text := j.Command + ": " + textFor(j.Code, j.Text, operator)
	if j.Step != "" {
		text += " (step " + j.Step + ")"
	}
	if kind, ok := fault.Lookup(string(j.Code)); ok {
		text = strings.TrimSuffix(text, ".") + ". " + kind.Remedy
	}
	return text
}

// jobResult returns the result of a successful job: the cluster as it is now, or success.
func (c *call) jobResult(ctx context.Context, j *cluster.Job, kube bool) (object, error) {
	switch j.Kind {
	case "delete", "stop":
		return object{"success": true}, nil
	case "forget":
		leaks, err := c.leaks(ctx, j.Cluster, "", page{0, noLimit})
		if fault.Of(err) == cluster.NotFound { // nothing is left of it
			leaks, err = []object{}, nil
		}
		return object{"success": true, "leaks": leaks}, err
	}
	b, err := c.options.Clusters.Get(ctx, c.who, j.Cluster)
	if fault.Of(err) == cluster.NotFound { // its rows are deleted before the job
		return object{"success": true}, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := c.viewOf(ctx, b, kube)
	if err != nil {
		return nil, err
	}
	if j.Kind == "create" && c.who.Owner == j.Owner {
		s.password = j.Password
	}
	family := "containercluster"
	if kube {
		family = "kubernetescluster"
	}
	return object{family: s.object()}, nil
}
