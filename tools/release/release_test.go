package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
)

// A text stands for pawl, and the program that tests where a Go program must be.
func TestFilesAgree(t *testing.T) {
	t.Chdir("../..")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	write := func() release {
		r := release{version: "1.2.3", out: t.TempDir(), stage: t.TempDir(), certs: "LICENSE", time: time.Unix(1_700_000_000, 0).UTC()}
		for _, folder := range []string{"man", "completions"} {
			if err := os.Mkdir(filepath.Join(r.stage, folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		base := "pawl_1.2.3_linux_" + runtime.GOARCH
		image, err := r.layer("LICENSE", runtime.GOARCH)
		steps := []error{
			err, r.image([]platform{image}), r.tarball("LICENSE", base), r.sbom(program, base),
			r.chart("deploy/chart"), r.krew([]archive{{"linux", runtime.GOARCH, base + ".tar.gz"}}), r.sums(),
		}
		for _, err := range steps {
			if err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	r := write()
	agree(t, r)
	// The sums name every other file, so equal sums are equal bytes.
	if a, b := read(t, r.out, "SHA256SUMS"), read(t, write().out, "SHA256SUMS"); !bytes.Equal(a, b) {
		t.Errorf("two releases of one commit differ:\n%s\n%s", a, b)
	}
}

func read(t *testing.T, folder, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// agree checks that the files of a release name each other rightly.
func agree(t *testing.T, r release) {
	t.Helper()
	sums := string(read(t, r.out, "SHA256SUMS"))
	entries, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(sums, "\n"); lines != len(entries)-1 {
		t.Errorf("SHA256SUMS has %d lines for %d files", lines, len(entries)-1)
	}
	for _, e := range entries {
		if line := hash(read(t, r.out, e.Name())) + "  " + e.Name() + "\n"; e.Name() != "SHA256SUMS" && !strings.Contains(sums, line) {
			t.Errorf("SHA256SUMS lacks %q", line)
		}
	}

	base := "pawl_" + r.version + "_linux_" + runtime.GOARCH
	krew := string(read(t, r.out, "krew-pawl.yaml"))
	if !strings.Contains(krew, "sha256: "+hash(read(t, r.out, base+".tar.gz"))) || !strings.Contains(krew, "/v"+r.version+"/"+base+".tar.gz") {
		t.Errorf("the krew manifest does not name the archive:\n%s", krew)
	}

	chart, err := loader.Load(filepath.Join(r.out, "pawl-chart-"+r.version+".tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if chart.Metadata.Version != r.version || chart.Metadata.AppVersion != r.version {
		t.Errorf("the chart has version %s of image %s", chart.Metadata.Version, chart.Metadata.AppVersion)
	}
	if err := chart.Validate(); err != nil {
		t.Error(err)
	}

	var bill struct {
		Packages []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(read(t, r.out, base+".spdx.json"), &bill); err != nil || len(bill.Packages) < 2 || bill.Packages[0].VersionInfo != r.version {
		t.Errorf("the SBOM is %+v, %v", bill, err)
	}
	agreeImage(t, r)
}

// agreeImage follows the digests of the image from its index to the layers.
func agreeImage(t *testing.T, r release) {
	t.Helper()
	blobs := map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(read(t, r.out, "pawl-image-"+r.version+".oci.tar"))); ; {
		h, err := tr.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if blobs[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
	type node struct {
		MediaType   string
		Manifests   []descriptor
		Config      descriptor
		Layers      []descriptor
		Annotations map[string]string
	}
	var layers int
	var follow func(data []byte)
	follow = func(data []byte) {
		var n node
		if err := json.Unmarshal(data, &n); err != nil {
			t.Fatal(err)
		}
		layers += len(n.Layers)
		if n.Config.Digest != "" {
			n.Manifests = append(n.Manifests, n.Config)
		}
		for _, d := range append(n.Manifests, n.Layers...) {
			data, ok := blobs["blobs/"+strings.Replace(d.Digest, ":", "/", 1)]
			if !ok || "sha256:"+hash(data) != d.Digest || len(data) != d.Size {
				t.Errorf("%s of %d bytes names a blob of %d", d.Digest, d.Size, len(data))
			}
			if strings.HasSuffix(d.MediaType, "+json") {
				follow(data)
			}
		}
	}
	follow(blobs["index.json"])
	if layers == 0 || !bytes.Contains(blobs["index.json"], []byte(`"org.opencontainers.image.ref.name":"`+r.version+`"`)) {
		t.Errorf("%d layers below %s", layers, blobs["index.json"])
	}
}
