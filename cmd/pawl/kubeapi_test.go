package main

import (
	"bufio"
	"bytes"
	"crypto/sha1" //nolint:gosec // RFC 6455 asks for it
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// apiServer is as much of an API server as the verbs of FoundationDB need: discovery, reads, watches, merge patches,
// creations and deletions of a few kinds, and fdbcli in pods.
type apiServer struct {
	statuses [][]byte // what status json prints, by repaired; none: pods cannot be reached
	calls    string   // file with the other commands of fdbcli

	mu       sync.Mutex
	repaired int // 1: a cluster file was written, 2: the database was recovered by force
	version  int64
	objects  map[string]*unstructured.Unstructured // by path
	changed  chan struct{}                         // closed at each change
}

// apiKinds are the kinds that it serves.
var apiKinds = map[schema.GroupVersion][]metav1.APIResource{
	{Version: "v1"}: {
		{Name: "pods", SingularName: "pod", Kind: "Pod", Namespaced: true, Verbs: apiVerbs},
		{Name: "services", SingularName: "service", Kind: "Service", Namespaced: true, Verbs: apiVerbs},
		{Name: "persistentvolumeclaims", SingularName: "persistentvolumeclaim", Kind: "PersistentVolumeClaim", Namespaced: true, Verbs: apiVerbs},
		{Name: "configmaps", SingularName: "configmap", Kind: "ConfigMap", Namespaced: true, Verbs: apiVerbs},
		{Name: "nodes", SingularName: "node", Kind: "Node", Verbs: apiVerbs},
	},
	{Group: "apps.foundationdb.org", Version: "v1beta2"}: {
		{Name: "foundationdbclusters", SingularName: "foundationdbcluster", Kind: "FoundationDBCluster", ShortNames: []string{"fdb"}, Namespaced: true, Verbs: apiVerbs, Categories: []string{"pawl"}},
		{Name: "foundationdbbackups", SingularName: "foundationdbbackup", Kind: "FoundationDBBackup", ShortNames: []string{"fdbbackup"}, Namespaced: true, Verbs: apiVerbs, Categories: []string{"pawl"}},
		{Name: "foundationdbrestores", SingularName: "foundationdbrestore", Kind: "FoundationDBRestore", ShortNames: []string{"fdbrestore"}, Namespaced: true, Verbs: apiVerbs, Categories: []string{"pawl"}},
	},
}

var apiVerbs = metav1.Verbs{"get", "list", "watch", "create", "patch", "delete"}

// kubeapi OBJECTS [STATUS [REPAIRED [RECOVERED]]]: serves the objects of a file as a Kubernetes cluster of namespace prod, whose
// fdbcli prints a status document: another one once a cluster file was written, and the last one when the database was
// recovered by force. What else programs in pods are asked for is in the file calls.
func kubeapi(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 4 {
		ts.Fatalf("usage: kubeapi OBJECTS [STATUS [REPAIRED [RECOVERED]]]")
	}
	a := &apiServer{calls: ts.MkAbs("calls"), version: 100, objects: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
	for _, file := range args[1:] {
		a.statuses = append(a.statuses, []byte(ts.ReadFile(file)))
	}
	ts.Check(os.WriteFile(a.calls, nil, 0o600))
	ts.Check(a.load([]byte(ts.ReadFile(args[0]))))
	server := httptest.NewServer(a)
	ts.Defer(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := filepath.Join(ts.Getenv("WORK"), "kubeconfig")
	ts.Check(os.WriteFile(config, fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
contexts: [{name: test, context: {cluster: test, namespace: prod, user: test}}]
clusters: [{name: test, cluster: {server: %q}}]
users: [{name: test, user: {}}]
`, server.URL), 0o600))
	ts.Setenv("KUBECONFIG", config)
}

func (a *apiServer) load(data []byte) error {
	d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		keep := func(o runtime.Object) error {
			one, ok := o.(*unstructured.Unstructured)
			if !ok {
				return fmt.Errorf("%T", o)
			}
			a.version++
			one.SetResourceVersion(strconv.FormatInt(a.version, 10))
			a.objects[pathOf(one)] = one
			return nil
		}
		if !u.IsList() {
			if err := keep(u); err != nil {
				return err
			}
			continue
		}
		if err := u.EachListItem(keep); err != nil {
			return err
		}
	}
}

// pathOf is the path of an object behind /api or /apis.
func pathOf(u *unstructured.Unstructured) string {
	for gv, kinds := range apiKinds {
		for _, k := range kinds {
			if gv.String() == u.GetAPIVersion() && k.Kind == u.GetKind() {
				if !k.Namespaced {
					return strings.Join([]string{gv.String(), k.Name, u.GetName()}, "/")
				}
				return strings.Join([]string{gv.String(), "namespaces", u.GetNamespace(), k.Name, u.GetName()}, "/")
			}
		}
	}
	return ""
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.Trim(r.URL.Path, "/")
	switch path {
	case "api":
		answer(w, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}})
		return
	case "apis":
		v := metav1.GroupVersionForDiscovery{GroupVersion: "apps.foundationdb.org/v1beta2", Version: "v1beta2"}
		answer(w, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{
			{Name: "apps.foundationdb.org", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v}}})
		return
	}
	_, path, _ = strings.Cut(path, "/")
	for gv, kinds := range apiKinds {
		if path == gv.String() {
			answer(w, metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String(), APIResources: kinds})
			return
		}
	}
	if strings.HasSuffix(path, "/exec") {
		a.exec(w, r)
		return
	}
	a.serve(w, r, path)
}

func answer(w http.ResponseWriter, what any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // the caller is gone
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: int32(code), Reason: reason, Message: string(reason)}) //nolint:gosec // a status code
}

// collection reports a path of a list, and its kind.
func collection(path string) (namespace string, kind metav1.APIResource, gv schema.GroupVersion, ok bool) {
	for gv, kinds := range apiKinds {
		rest, under := strings.CutPrefix(path, gv.String()+"/")
		if !under {
			continue
		}
		parts := strings.Split(rest, "/")
		if len(parts) == 3 && parts[0] == "namespaces" {
			namespace, parts = parts[1], parts[2:]
		}
		for _, k := range kinds {
			if len(parts) == 1 && parts[0] == k.Name {
				return namespace, k, gv, true
			}
		}
	}
	return "", kind, gv, false
}

func (a *apiServer) serve(w http.ResponseWriter, r *http.Request, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	namespace, kind, gv, isList := collection(path)
	switch {
	case isList && r.URL.Query().Get("watch") != "":
		a.watch(w, r)
	case isList && r.Method == http.MethodPost:
		u := &unstructured.Unstructured{}
		if json.NewDecoder(r.Body).Decode(&u.Object) != nil {
			refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
		u.SetNamespace(namespace)
		u.SetGeneration(1)
		if a.objects[pathOf(u)] != nil {
			refuse(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		a.keep(u)
		answer(w, u)
	case isList:
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(gv.String())
		list.SetKind(kind.Kind + "List")
		list.SetResourceVersion(strconv.FormatInt(a.version, 10))
		selector, _ := labels.Parse(r.URL.Query().Get("labelSelector"))
		for _, key := range slices.Sorted(maps.Keys(a.objects)) {
			if u := a.objects[key]; u.GetKind() == kind.Kind && (namespace == "" || u.GetNamespace() == namespace) && selector.Matches(labels.Set(u.GetLabels())) {
				list.Items = append(list.Items, *u)
			}
		}
		answer(w, list)
	case r.Method == http.MethodPatch && a.objects[strings.TrimSuffix(path, "/status")] != nil:
		a.patch(w, r, a.objects[strings.TrimSuffix(path, "/status")])
	case a.objects[path] == nil:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodDelete:
		answer(w, a.objects[path])
		delete(a.objects, path)
		a.tell()
	default:
		answer(w, a.objects[path])
	}
}

// keep stores an object under a new version. The caller holds the lock.
func (a *apiServer) keep(u *unstructured.Unstructured) {
	a.version++
	u.SetResourceVersion(strconv.FormatInt(a.version, 10))
	a.objects[pathOf(u)] = u
	a.tell()
}

func (a *apiServer) tell() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *apiServer) patch(w http.ResponseWriter, r *http.Request, u *unstructured.Unstructured) {
	var patch map[string]any
	if json.NewDecoder(r.Body).Decode(&patch) != nil {
		refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	u = u.DeepCopy()
	if want, _, _ := unstructured.NestedString(patch, "metadata", "resourceVersion"); want != "" && want != u.GetResourceVersion() {
		refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	if patch["spec"] != nil {
		u.SetGeneration(u.GetGeneration() + 1)
	}
	merge(u.Object, patch)
	if r.URL.Query().Get("dryRun") == "" {
		a.keep(u)
	}
	answer(w, u)
}

// merge is a JSON merge patch.
func merge(into, patch map[string]any) {
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		was, wasMap := into[key].(map[string]any)
		switch {
		case value == nil:
			delete(into, key)
		case isMap && wasMap:
			merge(was, inner)
		case isMap:
			into[key] = map[string]any{}
			merge(into[key].(map[string]any), inner) //nolint:forcetypeassert // set above
		default:
			into[key] = value
		}
	}
}

// watch tells that something has changed, and not what: the verbs read anew.
func (a *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	flusher, ok := w.(http.Flusher)
	if !ok {
		return
	}
	flusher.Flush()
	for {
		changed := a.changed
		a.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		a.mu.Lock()
		if r.Context().Err() != nil {
			return
		}
		for _, u := range a.objects {
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "MODIFIED", "object": u.Object}) // the caller is gone
			break
		}
		flusher.Flush()
	}
}

// exec is a program in a pod over a WebSocket (RFC 6455), as v5.channel.k8s.io: the first byte of a frame is its stream.
func (a *apiServer) exec(w http.ResponseWriter, r *http.Request) {
	hijacker, ok := w.(http.Hijacker)
	if len(a.statuses) == 0 || !ok {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
		return
	}
	connection, buffered, err := hijacker.Hijack()
	if err != nil {
		return
	}
	defer connection.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 asks for it
	fmt.Fprintf(buffered, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
	parts := strings.Split(r.URL.Path, "/")
	out, code := a.run(parts[len(parts)-2], r.URL.Query()["command"])
	frame(buffered, 2, append([]byte{1}, out...))
	status := metav1.Status{Status: metav1.StatusSuccess}
	if code != 0 {
		status = metav1.Status{Status: metav1.StatusFailure, Reason: "NonZeroExitCode", Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: "ExitCode", Message: strconv.Itoa(code)}}}}
	}
	text, _ := json.Marshal(status)
	frame(buffered, 2, append([]byte{3}, text...))
	frame(buffered, 8, []byte{3, 232}) // close: 1000
	_ = buffered.Flush()
	drain(connection)
}

// frame writes a frame without a mask.
func frame(w *bufio.ReadWriter, opcode byte, data []byte) {
	head := []byte{0x80 | opcode}
	switch n := len(data); {
	case n < 126:
		head = append(head, byte(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	_, _ = w.Write(append(head, data...)) // the caller is gone
}

// drain reads until the caller has closed.
func drain(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// run is a program in a pod: fdbcli prints status json, and what a file "printed COMMAND" has; shells write cluster
// files, and find and copy coordination files.
func (a *apiServer) run(pod string, command []string) (out []byte, code int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := slices.Index(command, "--exec"); at >= 0 {
		return a.fdbcli(command[at+1])
	}
	if command[0] != "sh" {
		return fmt.Appendf(nil, "%s\n", strings.Join(command, " ")), 0
	}
	args := command[4:] // behind sh -c SCRIPT sh
	switch script := command[2]; {
	case strings.Contains(script, "find"):
		return []byte("/var/fdb/data/1/coordination-0.fdq\n"), a.note("%s: find %s", pod, strings.Join(args, " "))
	case strings.Contains(script, "cat >"):
		return nil, a.note("%s: write %s", pod, strings.Join(args, " "))
	case strings.Contains(script, "cat"):
		return []byte("what a coordinator knows"), a.note("%s: read %s", pod, strings.Join(args, " "))
	}
	a.repaired = max(a.repaired, 1)
	return nil, a.note("%s: %s", pod, strings.Join(args, " > "))
}

// moments are what the cluster controller wrote at noon of 2020-01-01, at the version 5,000,000,000, and ten seconds later.
const moments = `Option enabled for all transactions

Range limited to 10000 keys
` + "`" + `\xff\x02/timeKeeper/map/\x18^\x0c\x89\xc0' is ` + "`" + `\x19\x01*\x05\xf2\x00'
` + "`" + `\xff\x02/timeKeeper/map/\x18^\x0c\x89\xca' is ` + "`" + `\x19\x01*\xa0\x0f '
`

// note writes a line into the file of calls.
func (a *apiServer) note(format string, args ...any) (code int) {
	f, err := os.OpenFile(a.calls, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 1
	}
	fmt.Fprintf(f, format+"\n", args...)
	if f.Close() != nil {
		return 1
	}
	return 0
}

// fdbcli is the fdbcli of a pod: status json, and successes.
func (a *apiServer) fdbcli(text string) (out []byte, code int) {
	if text == "status json" {
		return a.statuses[min(a.repaired, len(a.statuses)-1)], 0
	}
	if code := a.note("%s", text); code != 0 {
		return nil, code
	}
	words := strings.Fields(text)
	switch words[0] {
	case "option":
		return []byte(moments), 0
	case "fail":
		return []byte("ERROR: no\n"), 1
	case "force_recovery_with_data_loss":
		a.repaired = 2
	case "exclude":
		for _, target := range words[2:] {
			out = fmt.Appendf(out, "  %s  ---- Successfully excluded. It is now safe to remove this process from the cluster.\n", target)
		}
	}
	return out, 0
}

// The server is seen by its client: a list, an object, a conflict.
func TestKubeAPIFake(t *testing.T) {
	a := &apiServer{version: 1, objects: map[string]*unstructured.Unstructured{}, changed: make(chan struct{})}
	if err := a.load([]byte("apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n")); err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/nodes/node-1", http.NoBody))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"resourceVersion":"2"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
