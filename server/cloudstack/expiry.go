package cloudstack

import "time"

// expiryAhead is the longest validity of a signature if expiry is enforced.
const expiryAhead = 15 * time.Minute

// notExpired checks the expiry of a request. Version 3 of signatures has one, and if it
// is enforced, other versions are refused. Unknown versions are always refused.
func notExpired(p parameters, now time.Time, enforced bool) bool {
	switch p.get("signatureversion") {
	case "3":
	case "", "1", "2":
		return !enforced
	default:
		return false
	}
	until, err := parseTime(p.get("expires"))
	if err != nil || !now.Before(until) {
		return false
	}
	return !enforced || !until.After(now.Add(expiryAhead))
}

// parseTime parses 2030-01-01T00:00:00+0000, with any offset or Z.
func parseTime(text string) (time.Time, error) {
	var t time.Time
	var err error
	for _, layout := range []string{"2006-01-02T15:04:05-0700", time.RFC3339, "2006-01-02T15:04:05-07"} {
		if t, err = time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return t, err
}

// date formats a time for this API.
func date(t time.Time) string { return t.UTC().Format(dateForm) }

const dateForm = "2006-01-02T15:04:05-0700"
