package node

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// An archive has what an import reads: the manifest names config and layer, and the config the digest
// of the layer.
func TestWriteArchive(t *testing.T) {
	dir := t.TempDir()
	program, layer, to := filepath.Join(dir, "program"), filepath.Join(dir, "layer.tar"), filepath.Join(dir, "image.tar")
	if err := os.WriteFile(program, []byte("#!"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := writeTar(layer, func(w *tar.Writer) error { return fillImage(w, program, "usr/local/bin/program") }); err != nil {
		t.Fatal(err)
	}
	sum, err := digest(layer)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeArchive(to, image{name: "example.com/program:1", user: "7:7", entrypoint: []string{"/usr/local/bin/program"}}, layer); err != nil {
		t.Fatal(err)
	}
	files := read(t, to)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	var config struct {
		Config struct{ User string }
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := errors.Join(json.Unmarshal(files["manifest.json"], &manifest), json.Unmarshal(files["config.json"], &config)); err != nil {
		t.Fatal(err)
	}
	if len(manifest) != 1 || manifest[0].RepoTags[0] != "example.com/program:1" || manifest[0].Config != "config.json" || manifest[0].Layers[0] != "layer.tar" {
		t.Errorf("manifest: %+v", manifest)
	}
	if config.Config.User != "7:7" || config.RootFS.DiffIDs[0] != "sha256:"+sum {
		t.Errorf("config: %+v", config)
	}
	if string(read(t, layer)["usr/local/bin/program"]) != "#!" || len(files["layer.tar"]) == 0 {
		t.Error("the program is not in the layer")
	}
}

func read(t *testing.T, name string) map[string][]byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	files := map[string][]byte{}
	for r := tar.NewReader(file); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// A claim's volume is a folder on the node that the scheduler has chosen, and the claim's only.
func TestVolumeOfAClaim(t *testing.T) {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: "7", Annotations: map[string]string{selectedNode: Name}},
		Spec:       corev1.PersistentVolumeClaimSpec{StorageClassName: ptr.To(storageClass)},
	}
	v := volumeFor(c)
	if v.Spec.ClaimRef.UID != "7" || v.Spec.Local.Path != Dir+"/volumes/folder-7" || v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != Name {
		t.Errorf("%+v", v.Spec)
	}
}

// The folder and the volume of a deleted claim are removed, others stay.
func TestReclaim(t *testing.T) {
	volume := func(name string, phase corev1.PersistentVolumePhase) *corev1.PersistentVolume {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PersistentVolumeSpec{StorageClassName: storageClass, PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}}},
			Status:     corev1.PersistentVolumeStatus{Phase: phase},
		}
	}
	released, bound := volume("released", corev1.VolumeReleased), volume("bound", corev1.VolumeBound)
	client := fake.NewClientset(released, bound)
	if err := reclaim(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	left, err := client.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) != 1 || left.Items[0].Name != "bound" {
		t.Errorf("%v %v", left, err)
	}
	if _, err := os.Stat(released.Spec.Local.Path); !errors.Is(err, os.ErrNotExist) {
		t.Error("the folder of the released volume is there")
	}
	if _, err := os.Stat(bound.Spec.Local.Path); err != nil {
		t.Error(err)
	}
}

// Each place in the manifests is filled.
func TestManifestsAreFilled(t *testing.T) {
	for name, text := range map[string]string{"kubeadm": kubeadmConfig, "cluster": clusterManifest, "coredns": dnsManifest, "containerd": containerdConfig, "network": networkConfig, "kubelet": kubeletConfig, "kube-proxy": proxyConfig} {
		if text = fill(text); strings.Contains(text, "{{") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}
