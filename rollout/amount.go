package rollout

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a time.Duration whose JSON form is "1m30s".
type Duration time.Duration

// MarshalText encodes the duration as "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText decodes "1m30s".
func (d *Duration) UnmarshalText(text []byte) error {
	got, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration, such as 30s or 1h30m", text)
	}
	*d = Duration(got)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// IntOrPercent is a number of pods, or a percentage of a total. Its JSON form is 3 or "30%".
type IntOrPercent struct {
	Value   int
	Percent bool
}

// Int is a number of pods.
func Int(n int) *IntOrPercent { return &IntOrPercent{Value: n} }

// Percent is a share of a total in whole percent.
func Percent(n int) *IntOrPercent { return &IntOrPercent{Value: n, Percent: true} }

// Of returns the number of pods of a total; percentages are rounded up.
func (a IntOrPercent) Of(total int) int {
	if !a.Percent {
		return a.Value
	}
	return ceilPercent(total, a.Value)
}

// ceilPercent is total * percent / 100, rounded up.
func ceilPercent(total, percent int) int { return int((int64(total)*int64(percent) + 99) / 100) }

func (a IntOrPercent) String() string {
	if a.Percent {
		return strconv.Itoa(a.Value) + "%"
	}
	return strconv.Itoa(a.Value)
}

// MarshalJSON encodes 3 or "30%".
func (a IntOrPercent) MarshalJSON() ([]byte, error) {
	if a.Percent {
		return json.Marshal(a.String())
	}
	return json.Marshal(a.Value)
}

// UnmarshalJSON decodes 3 or "30%".
func (a *IntOrPercent) UnmarshalJSON(text []byte) error {
	if number, err := strconv.ParseInt(string(text), 10, 32); err == nil {
		*a = IntOrPercent{Value: int(number)}
		return nil
	}
	var s string
	if json.Unmarshal(text, &s) == nil {
		if digits, ok := strings.CutSuffix(s, "%"); ok && isDigits(digits) {
			if number, err := strconv.ParseInt(digits, 10, 32); err == nil {
				*a = IntOrPercent{Value: int(number), Percent: true}
				return nil
			}
		}
	}
	return fmt.Errorf("%s is neither a whole number nor a percentage, such as 3 or \"30%%\"", text)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// Healthy is a number of members, a percentage of them, or a majority. Its JSON form is 3, "60%" or
// "majority".
type Healthy struct {
	Majority bool
	IntOrPercent
}

// Majority is more than half of the members.
var Majority = Healthy{Majority: true}

// Of returns the number of members that must be healthy.
func (h Healthy) Of(members int) int {
	if h.Majority {
		return members/2 + 1
	}
	return h.IntOrPercent.Of(members)
}

func (h Healthy) String() string {
	if h.Majority {
		return "majority"
	}
	return h.IntOrPercent.String()
}

// MarshalJSON encodes 3, "60%" or "majority".
func (h Healthy) MarshalJSON() ([]byte, error) {
	if h.Majority {
		return []byte(`"majority"`), nil
	}
	return h.IntOrPercent.MarshalJSON()
}

// UnmarshalJSON decodes 3, "60%" or "majority".
func (h *Healthy) UnmarshalJSON(text []byte) error {
	if string(text) == `"majority"` {
		*h = Majority
		return nil
	}
	h.Majority = false
	if err := h.IntOrPercent.UnmarshalJSON(text); err != nil {
		return fmt.Errorf("%s is neither a number, a percentage nor \"majority\"", text)
	}
	return nil
}

// Decimal is an exact decimal number. Its JSON form is a number without exponent or a string: 5, "0.995".
type Decimal struct{ text string }

var decimals = regexp.MustCompile(`^[+-]?[0-9]{1,30}(\.[0-9]{1,30})?$`)

// ParseDecimal reads a decimal, such as -3 or 0.995.
func ParseDecimal(text string) (Decimal, error) {
	if !decimals.MatchString(text) {
		return Decimal{}, fmt.Errorf("%q is no decimal number, such as 5 or 0.995", text)
	}
	return Decimal{text: text}, nil
}

func (d Decimal) rat() *big.Rat {
	r, ok := new(big.Rat).SetString(d.text)
	if !ok {
		return new(big.Rat)
	}
	return r
}

// Cmp compares two decimals: -1, 0 or 1.
func (d Decimal) Cmp(other Decimal) int { return d.rat().Cmp(other.rat()) }

func (d Decimal) String() string { return d.text }

// MarshalJSON encodes the text of the number: a whole number as JSON writes it as one, others, such as
// 007, as a string.
func (d Decimal) MarshalJSON() ([]byte, error) {
	if n, err := strconv.ParseInt(d.text, 10, 64); err == nil && strconv.FormatInt(n, 10) == d.text {
		return json.Marshal(json.Number(d.text))
	}
	return json.Marshal(d.text)
}

// UnmarshalJSON decodes a number or a string.
func (d *Decimal) UnmarshalJSON(text []byte) error {
	s := strings.Trim(string(text), `"`)
	got, err := ParseDecimal(s)
	if err != nil {
		return err
	}
	*d = got
	return nil
}
