package events

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/workflow/runtype"
)

// position is the position of a stream. Its text is the id of an event:
//
//	<cursor of runs>[:<events read after it>:<checksum of the last one>][;<version of objects>[;<number of the last event of clusters>]]
//
// The checksum detects that events after the cursor were removed meanwhile.
type position struct {
	cursor   string
	read     int
	checksum string
	objects  string
	clusters string // empty: not known
}

func (p position) String() string {
	id := url.QueryEscape(p.cursor) // a store's cursor may contain any character
	if p.read > 0 {
		id += ":" + strconv.Itoa(p.read) + ":" + p.checksum
	}
	if p.objects != "" || p.clusters != "" {
		id += ";" + url.QueryEscape(p.objects)
	}
	if p.clusters != "" {
		id += ";" + p.clusters
	}
	return id
}

var errPosition = errors.New("not an id of this server")

func parsePosition(id string) (position, error) {
	if id == "" {
		return position{}, nil
	}
	runs, rest, _ := strings.Cut(id, ";")
	objects, clusters, _ := strings.Cut(rest, ";")
	parts := strings.Split(runs, ":")
	p := position{clusters: clusters}
	if n, err := strconv.ParseInt(clusters, 10, 64); clusters != "" && (err != nil || n < 0 || strconv.FormatInt(n, 10) != clusters) {
		return position{}, errPosition
	}
	var err, other error
	p.cursor, err = url.QueryUnescape(parts[0])
	p.objects, other = url.QueryUnescape(objects)
	if err != nil || other != nil || p.cursor == "" || p.cursor == "now" {
		return position{}, errPosition
	}
	switch len(parts) {
	case 1:
		return p, nil
	case 3:
		if p.read, err = strconv.Atoi(parts[1]); err == nil && p.read > 0 && p.read <= eventPage {
			p.checksum = parts[2]
			return p, nil
		}
	}
	return position{}, errPosition
}

func checksumOf(e runtype.Event) string {
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", e.Run, e.Seq)
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}
