package fdb

import (
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb/internal/tuple"
)

// TimeUnknown says that a database does not know which version it had at a time.
var TimeUnknown = fault.Declare(fault.Kind{
	Code: "FDB_TIME_UNKNOWN", Class: fault.Blocked,
	Title:  "the database does not know which version it had at this time",
	Remedy: "Name a version in place of the time: fdbbackup describe --version-timestamps lists those of a backup; or a time at which the database was available.",
	Guide:  "foundationdb.md#back-up-and-restore",
})

// The cluster controller writes every ten seconds which version the database has, under the seconds of its own clock
// since 1970, and keeps that for years (timeKeeper in fdbserver/ClusterController.actor.cpp, timeKeeperPrefixRange in
// fdbclient/SystemData.cpp, both at 7.1.67, 7.3.69 and 7.4.6).
const (
	timesPrefix = "\xff\x02/timeKeeper/map/"
	timesPeriod = 10 * time.Second
	// versionsPerSecond is by how much a version grows (CORE_VERSIONSPERSECOND in fdbclient/ClientKnobs.cpp at 7.3.69).
	versionsPerSecond = 1_000_000
)

// TimedVersion is the version that a database had at a time.
type TimedVersion struct {
	At      time.Time `json:"at"`
	Version int64     `json:"version"`
}

// ReadTimes reads which versions the database had between two times: one each ten seconds, 10,000 at most. VersionsOf
// reads the answer.
func ReadTimes(from, to time.Time) Call {
	return Call{Command: CommandTimes, Times: Range{Begin: timeKey(from.Unix()), End: timeKey(to.Unix() + 1)}}
}

func timeKey(second int64) string { return timesPrefix + string(tuple.Pack(second)) }

// VersionsOf are the versions that ReadTimes has printed, in the order of time. It fails with AnswerUnreadable.
func VersionsOf(stdout string) ([]TimedVersion, error) {
	var all []TimedVersion
	keys := PrefixRange(timesPrefix)
	for line := range strings.Lines(stdout) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "`") {
			continue
		}
		kv, ok := keyValue(line, keys)
		if !ok {
			return nil, AnswerUnreadable.Errorf("%q is no key and value of the time keeper", clipped(line))
		}
		second, keyOK := integerIn(kv.Key[len(timesPrefix):])
		version, valueOK := integerIn(string(kv.Value))
		if !keyOK || !valueOK || len(all) > 0 && second <= all[len(all)-1].At.Unix() {
			return nil, AnswerUnreadable.Errorf("%q is no time and version", clipped(line))
		}
		all = append(all, TimedVersion{time.Unix(second, 0).UTC(), version})
	}
	return all, nil
}

func integerIn(packed string) (int64, bool) {
	elements, err := tuple.Unpack([]byte(packed))
	if err != nil || len(elements) != 1 {
		return 0, false
	}
	n, ok := elements[0].(int64)
	return n, ok
}

// VersionAt is the version that the database had at a time: that of the last entry before it and a million for each
// second since, as fdbrestore --timestamp computes it (timeKeeperVersionFromDatetime in
// fdbclient/BackupContainer.actor.cpp at 7.3.69), but never more than that of the next entry. known is in the order of
// time. It fails with TimeUnknown where no entry comes before it.
func VersionAt(t time.Time, known []TimedVersion) (int64, error) {
	version, found := int64(0), false
	for _, k := range known {
		if k.At.After(t) {
			version = min(version, k.Version)
			break
		}
		version, found = k.Version+int64(t.Sub(k.At)/time.Second)*versionsPerSecond, true
	}
	if !found {
		return 0, TimeUnknown.Errorf("%s is before all that the database knows of versions and times", t.UTC().Format(time.RFC3339))
	}
	return version, nil
}
