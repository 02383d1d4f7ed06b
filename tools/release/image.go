package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"
)

// descriptor names a blob of an OCI image layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    map[string]string `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	data        []byte
}

// platform is the image of one architecture: its manifest and what that names.
type platform struct {
	manifest descriptor
	blobs    []descriptor
}

const ociType = "application/vnd.oci.image."

func blob(mediaType string, data []byte) descriptor {
	return descriptor{MediaType: ociType + mediaType, Digest: "sha256:" + hash(data), Size: len(data), data: data}
}

func jsonBlob(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	return blob(mediaType, data), err
}

// layer makes the image of an architecture: the same files as deploy/Dockerfile.
func (r release) layer(program, goarch string) (platform, error) {
	b := r.bundle()
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/"} {
		if err := b.add(folder, 0o755, nil); err != nil {
			return platform{}, err
		}
	}
	if err := b.add("tmp/", 0o1777, nil); err != nil {
		return platform{}, err
	}
	if err := b.add("etc/passwd", 0o644, []byte("nonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")); err != nil {
		return platform{}, err
	}
	if err := b.add("etc/group", 0o644, []byte("nonroot:x:65532:\n")); err != nil {
		return platform{}, err
	}
	if err := b.addFile("etc/ssl/certs/ca-certificates.crt", 0o644, r.certs); err != nil {
		return platform{}, err
	}
	if err := b.addFile("usr/local/bin/pawl", 0o755, program); err != nil {
		return platform{}, err
	}
	zipped, err := b.gzip()
	if err != nil {
		return platform{}, err
	}
	layer := blob("layer.v1.tar+gzip", zipped)
	type m = map[string]any
	config, err := jsonBlob("config.v1+json", m{
		"created": r.time.Format(time.RFC3339), "os": "linux", "architecture": goarch,
		"config": m{"User": "65532:65532", "Entrypoint": []string{"/usr/local/bin/pawl"},
			"Labels": map[string]string{"org.opencontainers.image.version": r.version, "org.opencontainers.image.source": "https://github.com/pawl-dev/pawl"}},
		"rootfs": m{"type": "layers", "diff_ids": []string{"sha256:" + hash(b.buf.Bytes())}},
	})
	if err != nil {
		return platform{}, err
	}
	manifest, err := jsonBlob("manifest.v1+json", m{"schemaVersion": 2, "mediaType": ociType + "manifest.v1+json", "config": config, "layers": []descriptor{layer}})
	manifest.Platform = map[string]string{"os": "linux", "architecture": goarch}
	return platform{manifest, []descriptor{layer, config, manifest}}, err
}

// image writes the layout of all architectures under one tag, as a tar.
func (r release) image(platforms []platform) error {
	b := r.bundle()
	if err := b.add("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	var manifests, blobs []descriptor
	for _, p := range platforms {
		manifests = append(manifests, p.manifest)
		blobs = append(blobs, p.blobs...)
	}
	type m = map[string]any
	index, err := jsonBlob("index.v1+json", m{"schemaVersion": 2, "mediaType": ociType + "index.v1+json", "manifests": manifests})
	if err != nil {
		return err
	}
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": r.version}
	top, err := json.Marshal(m{"schemaVersion": 2, "mediaType": ociType + "index.v1+json", "manifests": []descriptor{index}})
	if err != nil {
		return err
	}
	if err := b.add("index.json", 0o644, top); err != nil {
		return err
	}
	for _, folder := range []string{"blobs/", "blobs/sha256/"} {
		if err := b.add(folder, 0o755, nil); err != nil {
			return err
		}
	}
	for _, d := range append(blobs, index) {
		if err := b.add("blobs/sha256/"+d.Digest[len("sha256:"):], 0o644, d.data); err != nil {
			return err
		}
	}
	if err := b.tar.Close(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, "pawl-image-"+r.version+".oci.tar"), b.buf.Bytes(), 0o644)
}
