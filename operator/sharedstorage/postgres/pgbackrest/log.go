package pgbackrest

import (
	"bytes"
	"compress/bzip2"
	"compress/gzip"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A Segment is a file of the log in a repository.
type Segment struct {
	Timeline int64
	Number   string // the sixteen digits after the timeline: a later one is greater
	File     string // path below the folder of the archive, with the checksum and the compression
}

// Name returns the name of the file in pg_wal.
func (s Segment) Name() string { return fmt.Sprintf("%08X%s", s.Timeline, s.Number) }

// Newest returns the archive of a stanza that its engine writes now: the answer of repo-ls for the
// folder of the stanza has one for each major version, such as 15-1. "": there is none.
func Newest(list string) (archive string) {
	most := 0
	for name := range strings.Lines(list) {
		name = strings.TrimSpace(name)
		_, id, _ := strings.Cut(name, "-")
		if n, err := strconv.Atoi(id); err == nil && n > most {
			archive, most = name, n
		}
	}
	return archive
}

// ParseLog reads the answer of repo-ls --recurse for an archive: the segments, oldest first, and the
// newest timeline that has a history; 1: none has.
func ParseLog(list string) (segments []Segment, timeline int64) {
	timeline = 1
	for file := range strings.Lines(list) {
		file = strings.TrimSpace(file)
		name := path.Base(file)
		if name, ok := strings.CutSuffix(name, ".history"); ok {
			if n, err := strconv.ParseInt(name, 16, 64); err == nil {
				timeline = max(timeline, n)
			}
			continue
		}
		name, rest, _ := strings.Cut(name, "-")
		if n, err := strconv.ParseInt(name[:min(8, len(name))], 16, 64); err == nil && len(name) == 24 && rest != "" {
			segments = append(segments, Segment{Timeline: n, Number: name[8:], File: file})
		}
	}
	slices.SortFunc(segments, func(a, b Segment) int {
		return strings.Compare(a.Number+a.Name(), b.Number+b.Name())
	})
	return segments, timeline
}

// Decompress returns the content of a file of a repository, which repo-get decrypts and leaves compressed.
func Decompress(file string, content []byte) ([]byte, error) {
	switch path.Ext(file) {
	case ".lz4":
		return unlz4(content)
	case ".gz":
		r, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	case ".bz2":
		return io.ReadAll(bzip2.NewReader(bytes.NewReader(content)))
	case "":
		return content, nil
	}
	return nil, fmt.Errorf("%s is compressed in a way that cannot be read here", path.Base(file))
}
