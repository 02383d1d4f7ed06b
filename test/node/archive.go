package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// image is an image of one layer.
type image struct {
	name       string // with registry and tag, as the runtime knows it
	user       string
	entrypoint []string
	env        []string
}

// writeArchive writes an image and its layer, a tar, as `docker save` does, which
// `ctr images import` reads.
func writeArchive(to string, img image, layer string) (err error) {
	sum, err := digest(layer)
	if err != nil {
		return err
	}
	type m = map[string]any
	config, err := json.Marshal(m{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": m{"User": img.user, "Entrypoint": img.entrypoint, "Env": img.env},
		"rootfs": m{"type": "layers", "diff_ids": []string{"sha256:" + sum}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]m{{"Config": "config.json", "RepoTags": []string{img.name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	return writeTar(to, func(t *tar.Writer) error {
		for _, f := range []struct {
			name string
			data []byte
		}{{"manifest.json", manifest}, {"config.json", config}} {
			if err := addBytes(t, f.name, 0o644, f.data); err != nil {
				return err
			}
		}
		return addFile(t, "layer.tar", 0o644, layer)
	})
}

// writeTar writes a file that is there only once it is whole.
func writeTar(to string, fill func(*tar.Writer) error) error {
	file, err := os.Create(to + ".part")
	if err != nil {
		return err
	}
	defer os.Remove(to + ".part")
	defer file.Close()
	t := tar.NewWriter(file)
	if err := fill(t); err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return os.Rename(to+".part", to)
}

func addFolder(t *tar.Writer, name string, mode fs.FileMode) error {
	return t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: int64(mode)})
}

func addBytes(t *tar.Writer, name string, mode int64, data []byte) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err := io.Copy(t, bytes.NewReader(data))
	return err
}

func addFile(t *tar.Writer, name string, mode int64, from string) error {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.Copy(t, file)
	return err
}

func digest(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
