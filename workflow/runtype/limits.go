package runtype

// IDLength is the length of a complete id of a run. Anything shorter is a prefix.
const IDLength = 26

// Limits of values in bytes.
const (
	MaxInput        = 256 << 10
	MaxOutput       = 64 << 10
	MaxOutputRaised = 256 << 10
	MaxSignal       = 64 << 10
	MaxRun          = 1 << 20
)
