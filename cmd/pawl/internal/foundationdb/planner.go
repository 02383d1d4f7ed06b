package foundationdb

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/manifest"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

// readOnly is what an operator that only plans sees of Kubernetes.
type readOnly struct{ client.Reader }

var _ port.Objects = readOnly{}

// Get implements port.Objects.
func (r readOnly) Get(ctx context.Context, object port.Object) (bool, error) {
	o, ok := object.(client.Object)
	if !ok {
		return false, errWrites
	}
	err := r.Reader.Get(ctx, client.ObjectKeyFromObject(o), o)
	if fault.Of(err) == control.NotFound {
		return false, nil
	}
	return err == nil, err
}

// List implements port.Objects.
func (r readOnly) List(ctx context.Context, list runtime.Object, namespace string, labels map[string]string) error {
	all, ok := list.(client.ObjectList)
	if !ok {
		return errWrites
	}
	return r.Reader.List(ctx, all, matching(namespace, labels)...)
}

// errWrites is the answer to all that a plan must not do.
var errWrites = control.Invalid.Errorf("a plan writes nothing")

func (readOnly) Create(context.Context, port.Object) error        { return errWrites }
func (readOnly) Patch(context.Context, port.Object, []byte) error { return errWrites }
func (readOnly) Delete(context.Context, port.Object) error        { return errWrites }
func (readOnly) SaveStatus(context.Context, port.Object) error    { return errWrites }
func (readOnly) UnknownFields(context.Context, port.Object) ([]string, error) {
	return nil, nil // a plan does not depend on them
}
func (readOnly) Tell(port.Object, port.Event) {}

// document is a database that has only its status document.
type document struct {
	status  *fdb.Status
	silence string
}

var _ port.Database = document{}

// Status implements port.Database.
func (d document) Status(context.Context, port.Endpoint, port.Limit) (*fdb.Status, error) {
	if d.status == nil {
		return nil, port.DatabaseSilent.Errorf("%s", d.silence)
	}
	copied := *d.status
	return &copied, nil
}

func (document) Run(context.Context, port.Endpoint, fdb.Call) port.Answer {
	return port.Answer{Result: fdb.Result{Outcome: fdb.Refused, Reason: fdb.Reason("ReadOnly"), Text: "a plan writes nothing"}}
}

func (document) Transact(context.Context, port.Endpoint, []fdb.Range, func(fdb.Values) ([]fdb.Write, error)) fdb.Result {
	return fdb.Result{Outcome: fdb.Refused, Reason: fdb.Reason("ReadOnly"), Text: "a plan writes nothing"}
}

func (document) Versions() []string { return nil }

// unasked are sidecars that nobody asks: only the operator reaches them.
type unasked struct{}

var _ port.Sidecars = unasked{}

var errUnasked = fault.Unknown.Errorf("sidecars are asked by the operator only")

func (unasked) Substitutions(context.Context, *corev1.Pod) (map[string]string, error) {
	return nil, errUnasked
}
func (unasked) Hash(context.Context, *corev1.Pod, string) (string, error) { return "", errUnasked }
func (unasked) Present(context.Context, *corev1.Pod, string) (bool, error) {
	return false, errUnasked
}
func (unasked) Copy(context.Context, *corev1.Pod) error { return errUnasked }

// PlanManifests prints what the operator would do if manifests were applied: nothing is written.
func PlanManifests(ctx context.Context, a *cli.App, manifests []manifest.Manifest, namespace string) error {
	v := verbs{a}
	s, err := v.open(ctx, where{namespace: namespace})
	if err != nil {
		return err
	}
	defer s.Close()
	plans, err := v.planManifests(ctx, s, where{namespace: namespace}, manifests)
	if err != nil {
		return err
	}
	return v.emitPlans(s, plans)
}

// AreClusters reports manifests of FoundationDB clusters, and of nothing else.
func AreClusters(manifests []manifest.Manifest) bool {
	for _, m := range manifests {
		if report.KindOf(m.Object.Kind) != report.ClusterKind {
			return false
		}
	}
	return len(manifests) > 0
}

// planManifests says what the operator would do if manifests of clusters were applied. Objects come from the files, else
// from the Kubernetes cluster; the status of the database from its file, else from a pod.
func (a verbs) planManifests(ctx context.Context, s *source, w where, manifests []manifest.Manifest) ([]report.Plan, error) {
	manifest.InNamespace(a.Target.Namespace, manifests, w.namespace)
	plans := []report.Plan{}
	for _, m := range manifests {
		if report.KindOf(m.Object.Kind) != report.ClusterKind {
			continue
		}
		changed, err := report.ClusterOf(m.Object)
		if err != nil {
			return nil, cli.FileWrong.Errorf("%s:%d: %s", m.File, m.Line, fault.Message(err))
		}
		p, err := s.plan(ctx, changed)
		if err != nil {
			return nil, err
		}
		plans = append(plans, p)
	}
	if len(plans) == 0 {
		return nil, cli.FileWrong.Errorf("%s: there is no FoundationDBCluster", manifests[0].File)
	}
	return plans, nil
}

// plan runs the judgements of the operator over a changed cluster, or over one that does not exist yet.
func (s *source) plan(ctx context.Context, changed *v1beta2.FoundationDBCluster) (report.Plan, error) {
	stored := &v1beta2.FoundationDBCluster{}
	err := s.reader.Get(ctx, client.ObjectKeyFromObject(changed), stored)
	if fault.Of(err) == control.NotFound {
		stored, err = changed.DeepCopy(), nil
		stored.UID, stored.Generation, stored.CreationTimestamp = "new", 1, metav1.NewTime(s.now())
	}
	if err != nil {
		return report.Plan{}, err
	}
	assumed := "made here from the objects and the status of the database; the operator decides again when it acts"
	facts := report.Facts{Cluster: stored, Now: s.now()}
	if stored.Status.ConnectionString != "" || s.status != nil {
		facts = s.facts(ctx, stored, true)
	}
	if facts.Silence != "" {
		assumed += "; " + oneLine(facts.Silence)
	}
	o := clusters.New(readOnly{snapshot{s.reader, stored}}, document{facts.Status, facts.Silence}, unasked{}, clusters.Options{Now: s.now})
	planned, err := o.Plan(ctx, control.Ref{Kind: clusters.Kind, Namespace: stored.Namespace, Name: stored.Name}, changed)
	if err != nil {
		return report.Plan{}, err
	}
	judged := stored.DeepCopy()
	judged.Spec = changed.Spec
	return report.PlannedOf(judged, planned, assumed, s.now()), nil
}
