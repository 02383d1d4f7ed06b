package fdb

// Version is a release of FoundationDB: 7.3.69, 7.4.0-rc1, 7.3.0-PRERELEASE.
type Version struct {
	Major, Minor, Patch int
	Candidate           int    // of a release candidate: 1 of -rc1; 0: none
	Label               string // PRERELEASE of -PRERELEASE; empty: none
}

// Feature is something that only some versions can do.
type Feature string

const (
	FeatureRecoveryState     Feature = "RecoveryState"
	FeatureLocalityExclusion Feature = "LocalityExclusion"
	FeatureDeadTesters       Feature = "DeadTesters"
	FeatureBackupEncryption  Feature = "BackupEncryption"
	FeatureMutationLogType   Feature = "MutationLogType"
	FeatureSidecarPresent    Feature = "SidecarPresent"
)

// VersionChange says what a change from one version to another is.
type VersionChange struct {
	Allowed      bool
	Upgrade      bool
	Compatible   bool
	Incompatible bool
	AtLeast      bool
}
