// Command chart generates files from the Helm chart in deploy/chart:
//
//	deploy/chart/files/{crds,mpd,fdb}   copies of the CRDs in deploy
//	deploy/install.yaml                 the chart with its default values
//	docs/guide/install-kubernetes.md    the table of its values
//
// `make generate` runs it after the CRDs, and `make fresh` fails if one of them is
// outdated.
//
// With -print it writes no file: it prints the chart as another release, with the
// values of a YAML or JSON file ("-" is stdin), for kubectl on a machine without
// helm:
//
//	go -C tools run ./chart -print -name db -namespace ops -values values.yaml | kubectl apply --server-side -f -
//
// A relative path of a file is relative to tools, the folder of -C.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

//go:generate go run . -root ../..

func main() {
	root := flag.String("root", "..", "root of the repository")
	show := flag.Bool("print", false, "print the chart instead of writing files")
	release := Release{By: Install.By}
	flag.StringVar(&release.Name, "name", Install.Name, "of the release, for -print")
	flag.StringVar(&release.Namespace, "namespace", Install.Namespace, "of the release, for -print")
	values := flag.String("values", "", "`file` of values, for -print; - is what is piped in")
	flag.Parse()
	err := error(nil)
	if *show {
		err = printed(os.Stdout, *root, release, *values)
	} else {
		err = generate(*root)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// printed writes a release with the values of a file.
func printed(to io.Writer, root string, r Release, file string) error {
	values, err := read(file)
	if err != nil {
		return err
	}
	objects, err := Render(filepath.Join(root, "deploy", "chart"), r, values)
	if err != nil {
		return err
	}
	return encode(to, objects)
}

// read returns the values of a file; without one those of the chart.
func read(file string) (values map[string]any, err error) {
	if file == "" {
		return nil, nil
	}
	var text []byte
	if file == "-" {
		text, err = io.ReadAll(os.Stdin)
	} else {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return values, nil
}

func generate(root string) error {
	if err := copyCRDs(root); err != nil {
		return err
	}
	dir := filepath.Join(root, "deploy", "chart")
	objects, err := Render(dir, Install, nil)
	if err != nil {
		return err
	}
	text, err := manifest(objects)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "deploy", "install.yaml"), text, 0o644); err != nil {
		return err
	}
	return document(filepath.Join(dir, "values.yaml"), filepath.Join(root, "docs", "guide", "install-kubernetes.md"))
}

// copyCRDs copies the CRDs of deploy into the chart: a chart can only read files of its
// own folder.
func copyCRDs(root string) error {
	for _, name := range []string{"crds", "mpd", "fdb"} {
		to := filepath.Join(root, "deploy", "chart", "files", name)
		files, err := filepath.Glob(filepath.Join(root, "deploy", name, "*.yaml"))
		if err != nil || len(files) == 0 {
			return errors.Join(err, fmt.Errorf("%d CRDs in deploy/%s", len(files), name))
		}
		if err := errors.Join(os.RemoveAll(to), os.MkdirAll(to, 0o755)); err != nil {
			return err
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(to, filepath.Base(file)), text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}
