package foundationdb

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// where says which clusters a verb reads, and from where.
type where struct {
	namespace string
	all       bool     // in all namespaces
	objects   []string // files in place of a cluster
	status    string   // file in place of the database
}

func (w *where) namespaceFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&w.namespace, "namespace", "n", "", "`namespace` of the cluster (default: that of the context)")
}

func (w *where) allFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.all, "all-namespaces", "A", false, "look in all namespaces")
}

func (w *where) objectsFlag(cmd *cobra.Command) {
	cmd.Flags().StringSliceVar(&w.objects, "objects", nil, "`files` with what kubectl get fdb,pods,pvc,services,configmaps -o yaml prints, in place of a Kubernetes cluster")
}

func (w *where) statusFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.status, "status-file", "", "`file` with what fdbcli --exec 'status json' prints, in place of the database")
}

// source is where a verb reads, and writes if it may.
type source struct {
	app     *cli.App
	reader  client.Reader
	backend backend.Backend // nil: files
	objects control.Objects // nil: files
	kube    client.Client   // writes what control.Objects does not: a status, config maps; nil: files
	exec    func(ctx context.Context, e backend.Exec) (int, error)
	status  *fdb.Status // of --status-file
	now     func() time.Time
	home    string // namespace of names without one; "": all
}

// open opens what the flags name.
func (a verbs) open(ctx context.Context, w where) (*source, error) {
	s := &source{app: a.App, now: time.Now}
	if w.status != "" {
		data, err := statusFile(w.status)
		if err != nil {
			return nil, err
		}
		if s.status, err = fdb.ParseStatus(data); err != nil {
			return nil, cli.FileWrong.Errorf("%s: %s", w.status, fault.Message(err))
		}
	}
	if len(w.objects) > 0 {
		read, err := readFiles(w.objects, a.In)
		s.reader, s.home = read, w.namespace
		return s, err
	}
	if !a.Target.Kubernetes {
		return nil, cli.Usage.Errorf("a FoundationDBCluster is an object of a Kubernetes cluster: use kubectl pawl, --kubernetes or --context, or files with --objects")
	}
	if !w.all {
		s.home = cmp.Or(w.namespace, a.Target.Namespace)
	}
	b, err := a.Open(ctx, cli.Reads)
	if err != nil {
		return nil, err
	}
	s.backend = b
	if s.objects, err = b.Objects(); err == nil {
		if databases, ok := b.(backend.Databases); ok {
			s.exec, s.now = databases.Exec, databases.Now
			s.kube, err = databases.DatabaseClient()
			s.reader = s.kube
		}
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// Close closes the way to the cluster.
func (s *source) Close() error {
	if s.backend == nil {
		return nil
	}
	return s.backend.Close()
}

// clusters are those of the namespace, or the one with a name.
func (s *source) clusters(ctx context.Context, name string) ([]*v1beta2.FoundationDBCluster, error) {
	var list v1beta2.FoundationDBClusterList
	if err := s.reader.List(ctx, &list, client.InNamespace(s.home)); err != nil {
		return nil, err
	}
	var found []*v1beta2.FoundationDBCluster
	var names []string
	for i := range list.Items {
		c := &list.Items[i]
		names = append(names, c.Name)
		if name == "" || c.Name == name || nameOf(c) == name {
			found = append(found, c)
		}
	}
	if len(found) == 0 && name != "" {
		return nil, control.NotFound.Errorf("there is no FoundationDBCluster %s in %s%s", name, s.place(), cli.Suggest(name, names))
	}
	slices.SortFunc(found, func(a, b *v1beta2.FoundationDBCluster) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return found, nil
}

func (s *source) place() string {
	switch {
	case s.backend == nil:
		return "the files"
	case s.home == "":
		return "the Kubernetes cluster"
	}
	return "namespace " + s.home
}

// cluster is the one with a name, or the only one there is.
func (s *source) cluster(ctx context.Context, name string) (*v1beta2.FoundationDBCluster, error) {
	found, err := s.clusters(ctx, name)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, control.NotFound.Errorf("there is no FoundationDBCluster in %s", s.place())
	case len(found) > 1:
		var names []string
		for _, c := range found {
			names = append(names, nameOf(c))
		}
		return nil, cli.Usage.Errorf("there are several clusters in %s: name one of %s", s.place(), strings.Join(names, ", "))
	}
	return found[0], nil
}

// facts reads pods and the database. What cannot be read is told in the facts.
func (s *source) facts(ctx context.Context, c *v1beta2.FoundationDBCluster, database bool) report.Facts {
	f := report.Facts{Cluster: c, Now: s.now()}
	var pods corev1.PodList
	if err := s.reader.List(ctx, &pods, matching(c.Namespace, foundationdb.MatchLabels(c))...); err != nil {
		s.app.Hint("pawl: pods are not shown: %s", fault.Message(err))
	} else {
		f.Pods = report.PodsOf(c, pods.Items)
	}
	if !database {
		return f
	}
	switch {
	case s.status != nil:
		f.Status = s.status
	case s.exec != nil:
		status, err := s.readStatus(ctx, c, f.Pods)
		f.Status = status
		if err != nil {
			f.Silence = fault.Message(err)
		}
	}
	return f
}

// readStatus asks fdbcli in a pod.
func (s *source) readStatus(ctx context.Context, c *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod) (*fdb.Status, error) {
	_, out, errOut, err := s.run(ctx, c, pods, fdb.ReadStatus())
	if err != nil {
		return nil, err
	}
	status, err := fdb.ParseStatus(out)
	if err != nil {
		return nil, fdb.StatusUnreadable.Errorf("%s %s", fault.Message(err), strings.TrimSpace(string(errOut)))
	}
	return status, nil
}

// run runs a call of fdbcli in a pod of the cluster, with the cluster file of the pod.
func (s *source) run(ctx context.Context, c *v1beta2.FoundationDBCluster, pods map[v1beta2.ProcessGroupID]*corev1.Pod, call fdb.Call) (fdb.Result, []byte, []byte, error) {
	if s.exec == nil {
		return fdb.Result{}, nil, nil, cli.Usage.Errorf("files have no database to talk to: call it without --objects")
	}
	pod := talker(pods)
	if pod == nil {
		return fdb.Result{}, nil, nil, Unreachable.Errorf("no pod of %s runs", nameOf(c))
	}
	version, err := fdb.ParseVersion(cmp.Or(c.Status.RunningVersion, c.Spec.Version))
	if err != nil {
		return fdb.Result{}, nil, nil, err
	}
	call.Version = version
	if err := call.Check(); err != nil {
		return fdb.Result{}, nil, nil, err
	}
	argv, kill := call.Arguments()
	limited, cancel := context.WithTimeout(ctx, kill)
	defer cancel()
	var out, errOut bytes.Buffer
	code, err := s.exec(limited, backend.Exec{
		Namespace: pod.Namespace, Pod: pod.Name, Container: foundationdb.MainContainer, Command: append([]string{"fdbcli"}, argv...), Out: &out, Err: &errOut,
	})
	if err != nil {
		return fdb.Result{}, nil, nil, Unreachable.Errorf("fdbcli in pod %s: %s", pod.Name, fault.Message(err))
	}
	return fdb.Judge(call, version, code, out.String(), errOut.String()), out.Bytes(), errOut.Bytes(), nil
}

// talker is a pod in which fdbcli can be run: one that is ready, if there is one.
func talker(pods map[v1beta2.ProcessGroupID]*corev1.Pod) *corev1.Pod {
	var best *corev1.Pod
	for _, pod := range pods {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		if best == nil || ready(pod) && !ready(best) || ready(pod) == ready(best) && pod.Name < best.Name {
			best = pod
		}
	}
	return best
}

func ready(pod *corev1.Pod) bool { return foundationdb.ContainerReady(pod, foundationdb.MainContainer) }

// refOf names a cluster for control.Objects.
func refOf(o client.Object, kind string) control.Ref {
	return control.Ref{Kind: kind + "." + v1beta2.GroupVersion.Group, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// shown names an object for people.
func shown(o client.Object, kind string) string { return fmt.Sprintf("%s/%s", kind, nameOf(o)) }
