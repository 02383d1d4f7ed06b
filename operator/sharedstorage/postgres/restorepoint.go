package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/pgbackrest"
)

const scanName = "scan" // the scratch folder of a search in the log

// segmentHead is where the first page of a segment has the number of bytes of a segment
// (XLogLongPageHeaderData.xlp_seg_size).
const segmentHead = 32

// restorePoint returns where the newest restore point of this name is in an archive. It reads the log
// backwards, so it reads no more than a restore would apply; not before the end of the oldest backup.
func (a *archiver) restorePoint(ctx context.Context, conf string, from port.Restore, have []port.Backup) (at uint64, err error) {
	if len(have) == 0 {
		return 0, nil
	}
	get := func(path string) (string, error) { // without an answer the fault names the file
		return a.run(ctx, port.RestoreFailed, conf, from.Repository.Stanza, "repo-get", "archive/"+from.Repository.Stanza+"/"+path)
	}
	list := func(args ...string) (string, error) {
		return a.run(ctx, port.RestoreFailed, conf, from.Repository.Stanza, append([]string{"repo-ls"}, args...)...)
	}
	archives, err := list("archive/" + from.Repository.Stanza)
	if err != nil {
		return 0, err
	}
	archive := pgbackrest.Newest(archives)
	files, err := list("--recurse", "archive/"+from.Repository.Stanza+"/"+archive)
	if err != nil {
		return 0, err
	}
	segments, timeline := pgbackrest.ParseLog(files)
	way := []fork(nil) // the timelines that lead to the newest one, which a restore follows
	if timeline > 1 {
		text, err := get(fmt.Sprintf("%s/%08X.history", archive, timeline))
		if err != nil {
			return 0, err
		}
		way = parseHistory(text)
	}
	oldest, err := parseLSN(have[0].StopLSN)
	if err != nil {
		return 0, port.RestoreFailed.Errorf("backup %s: %w", have[0].Label, err)
	}
	into := a.srv.path(scanName)
	if err := errors.Join(os.RemoveAll(into), a.srv.mkdir(into)); err != nil {
		return 0, host.Trouble(err)
	}
	defer os.RemoveAll(into) // else the next search does
	var kept []string        // a record may go on in the next segment
	for _, s := range slices.Backward(segments) {
		if s.Timeline != timeline && !slices.ContainsFunc(way, func(f fork) bool { return f.Timeline == s.Timeline }) {
			continue
		}
		raw, err := get(archive + "/" + s.File)
		if err != nil {
			return 0, err
		}
		content, err := pgbackrest.Decompress(s.File, []byte(raw))
		if err != nil {
			return 0, port.RestoreFailed.Errorf("the restore point %s cannot be looked for: %w; name the label of a backup that ended before it", from.Name, err)
		}
		if err := a.srv.write(filepath.Join(into, s.Name()), string(content)); err != nil {
			return 0, host.Trouble(err)
		}
		kept = append(kept, filepath.Join(into, s.Name()))
		if n := len(kept) - 4; n >= 0 { // two timelines may have the same number
			if err := os.Remove(kept[n]); err != nil {
				return 0, host.Trouble(err)
			}
		}
		begin, end := segmentRange(content)
		if end == 0 {
			return 0, port.RestoreFailed.Errorf("%s in the archive is no segment of a log", s.File)
		}
		found, err := a.pointsIn(ctx, into, s.Timeline, begin, end)
		if err != nil {
			return 0, err
		}
		for _, p := range slices.Backward(found) {
			left := slices.IndexFunc(way, func(f fork) bool { return f.Timeline == s.Timeline })
			if p.name == from.Name && (s.Timeline == timeline || p.at < way[left].At) {
				return p.at, nil
			}
		}
		if end <= oldest {
			break
		}
	}
	return 0, nil
}

// segmentRange returns the part of the log that a segment has; 0: it is none.
func segmentRange(content []byte) (begin, end uint64) {
	if len(content) < segmentHead+4 {
		return 0, 0
	}
	begin, size := binary.LittleEndian.Uint64(content[8:]), uint64(binary.LittleEndian.Uint32(content[segmentHead:]))
	if size != uint64(len(content)) {
		return 0, 0
	}
	return begin, begin + size
}

type point struct {
	name string
	at   uint64
}

// pointsIn returns the restore points whose records begin in a part of a log.
func (a *archiver) pointsIn(ctx context.Context, folder string, timeline int64, begin, end uint64) ([]point, error) {
	const beyond = 2 * 8192 // the record that begins last may end there
	out, err := a.srv.output(ctx, "pg_waldump", "-r", "XLOG", "-p", folder, "-t", strconv.FormatInt(timeline, 10), "-s", LSN(begin), "-e", LSN(end+beyond))
	var exit *exec.ExitError
	if err != nil && (ctx.Err() != nil || !errors.As(err, &exit)) { // it fails where the log ends
		return nil, port.RestoreFailed.Errorf("%w", err)
	}
	return slices.DeleteFunc(parsePoints(out), func(p point) bool { return p.at < begin || p.at >= end }), nil
}

// parsePoints reads what pg_waldump says of restore points.
func parsePoints(text string) (found []point) {
	for line := range strings.Lines(text) {
		_, name, ok := strings.Cut(line, "desc: RESTORE_POINT ")
		_, lsn, placed := strings.Cut(line, " lsn: ")
		if lsn, _, _ = strings.Cut(lsn, ","); !ok || !placed {
			continue
		}
		if at, err := parseLSN(lsn); err == nil {
			found = append(found, point{strings.TrimRight(name, "\n"), at})
		}
	}
	return found
}
