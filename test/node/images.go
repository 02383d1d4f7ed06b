package node

import (
	"archive/tar"
	"context"
	"os"
	"path/filepath"
	"slices"
)

// Images of the node.
const (
	PauseImage    = "pawl.dev/pause:1"
	DNSImage      = "pawl.dev/coredns:1"
	PawlImage     = "ghcr.io/pawl-dev/pawl:0.1.0"
	PostgresImage = "docker.io/library/postgres:15"
)

// database is how the image of PostgreSQL is made of Debian's packages. The user has the
// number that it has in the image of Docker Hub, which the operator's default is about.
var database = []string{
	"--quiet", "--variant=essential", "--include=postgresql-15,pgbouncer,pgbackrest,ca-certificates",
	`--essential-hook=echo postgres:x:999:999:PostgreSQL:/var/lib/postgresql:/bin/sh >>"$1/etc/passwd"; echo postgres:x:999: >>"$1/etc/group"`,
	"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
	"bookworm",
}

// images is the folder of the archives that importImages reads.
func (n *Node) images() string { return filepath.Join(n.Bin, "node", "images") }

// writeImages writes the archives of all images. The packages of the database are fetched
// once; the others cost nothing, and their programs may have changed.
func (n *Node) writeImages(ctx context.Context) error {
	if err := os.MkdirAll(n.images(), 0o755); err != nil {
		return err
	}
	for _, img := range []struct {
		image
		program, at string
	}{
		{image{name: PauseImage, user: "65535:65535", entrypoint: []string{"/pause"}}, "pause", "pause"},
		{image{name: DNSImage, entrypoint: []string{"/coredns"}}, "coredns", "coredns"},
		{image{name: PawlImage, user: "65532:65532", entrypoint: []string{"/usr/local/bin/pawl"}}, "pawl", "usr/local/bin/pawl"},
	} {
		layer := path(img.program + ".layer.tar")
		if err := writeTar(layer, func(t *tar.Writer) error { return fillImage(t, n.program(img.program), img.at) }); err != nil {
			return err
		}
		if err := writeArchive(filepath.Join(n.images(), img.program+".tar"), img.image, layer); err != nil {
			return err
		}
		os.Remove(layer)
	}
	archive := filepath.Join(n.images(), "postgres.tar")
	if _, err := os.Stat(archive); err == nil {
		return nil
	}
	layer := path("postgres.layer.tar")
	defer os.Remove(layer)
	n.Log("fetching the packages of the image of PostgreSQL, once")
	if _, err := run(ctx, "", "mmdebstrap", slices.Concat(database, []string{layer})...); err != nil {
		return err
	}
	return writeArchive(archive, image{name: PostgresImage, user: "999:999", env: []string{"PATH=/usr/lib/postgresql/15/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}, layer)
}

// fillImage writes the files of deploy/Dockerfile with one program.
func fillImage(t *tar.Writer, program, at string) error {
	for _, folder := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/", "usr/", "usr/local/", "usr/local/bin/"} {
		if err := addFolder(t, folder, 0o755); err != nil {
			return err
		}
	}
	if err := addFolder(t, "tmp/", 0o1777); err != nil {
		return err
	}
	if err := addBytes(t, "etc/passwd", 0o644, []byte("root:x:0:0:root:/:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/:/sbin/nologin\n")); err != nil {
		return err
	}
	if err := addBytes(t, "etc/group", 0o644, []byte("root:x:0:\nnonroot:x:65532:\n")); err != nil {
		return err
	}
	const authorities = "/etc/ssl/certs/ca-certificates.crt"
	if _, err := os.Stat(authorities); err == nil {
		if err := addFile(t, authorities[1:], 0o644, authorities); err != nil {
			return err
		}
	}
	return addFile(t, at, 0o755, program)
}

func (n *Node) importImages(ctx context.Context) error {
	for _, name := range []string{"pause", "coredns", "pawl", "postgres"} {
		if _, err := run(ctx, "", "ctr", "--address", socket(), "--namespace", "k8s.io", "images", "import", filepath.Join(n.images(), name+".tar")); err != nil {
			return err
		}
	}
	return nil
}
