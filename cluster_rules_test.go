package pawl_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// clusterRules are the rules of container clusters and the tests that verify them: first
// common mistakes of such services, then the state machine, the lifecycle and the periodic
// tasks.
var clusterRules = []struct{ rule, tests string }{
	{"a refused transition is an error, the state stays; writes are of a revision", "TestEveryPairIsAllowedOrRefused TestAChangeIsForItsRevision TestAConflictIsDecidedAgain TestRevisionsOfClusters"},
	{"no transient state lasts after a crash", "TestExplore TestExploreTwice TestARunEndsAtItsDeadline"},
	{"a failed delete is collected, with pauses, and reported", "TestExpungeIsTriedWithPausesAndReported TestFailedLeaksAfterFiveAttempts"},
	{"the intent is stored before the call", "TestDecideCreate TestJournalNeverGuesses TestExplore"},
	{"half a create is what the policy says", "TestCapacityEndsHalfWay TestLazyCleanupComesWithTheCollector"},
	{"a failed scale keeps or rolls back, and the size is explained", "TestScale TestWhatAScaleWrites"},
	{"a VM deleted outside is a finding and can be replaced", "TestAMissingVMWaitsForPermission TestThePolicyReplaces"},
	{"a delete continues after the first error, in any state", "TestDeleteGoesOnAfterAFailure TestDeleteInEachState"},
	{"a foreign VM is named; our rules leave a user's network", "TestDeleteTouchesNothingOfOthers TestForeignVMs"},
	{"a migration is borne; an outage is no loss", "TestToleratedFindings TestToleranceOfTransitionalStates TestAnOutageIsNoLoss TestProviderDownForAnHour"},
	{"recovery has a plan and policies", "TestPlanRecovery TestRecover TestRecoveryByPolicy"},
	{"rules are found by id and open to the CIDRs of the cluster", "TestAnOpenedRuleIsClosedAgain TestUpgradesAndRules"},
	{"each command has two gates", "TestTwoGates TestWhoMayCallTheRoutesOfClusters TestAnotherAccountsClusterIsRefused"},
	{"join tokens are random, short-lived and the CA is pinned", "TestTokensOfNodes TestControlAdmits TestPinning"},
	{"no SSH: a heartbeat brings the config", "TestCluster TestConfig TestFirstStartCreatesEverythingOnce"},
	{"a fault has a remedy; a plan shows limits before anything is created", "TestFailedJob TestAPlanWritesNothing TestMissingCapacityIsKnownBeforeAnythingIsCreated"},
	{"scale works from Alert, and removes exactly the named nodes", "TestWhoMayChangeWhatInWhichState TestAutoscaler TestVictims"},

	{"exactly these transitions", "TestEveryPairIsAllowedOrRefused TestTheMachineHasExactlyTheEdgesOfTheLifecycle TestAdditionsToTheMachineOf2016 TestTheMachineFiresWhatIsDue"},
	{"a create that never started is deleted", "TestACreateThatNeverStartsIsDeleted"},
	{"delete walks from each state, and Destroyed is final", "TestDeleteInEachState TestDestroyedIsReachedWhateverFails"},
	{"a call in flight is followed to its end", "TestACallInFlightIsFollowedToItsEnd"},
	{"a delete overtakes earlier requests", "TestADeletionOvertakesOpenJobs"},

	{"transient faults are tried again with pauses, others end the step", "TestTransientFaultsAreOvercome TestPausesGrow TestRefusedCredentialsEndARunAtOnce TestAFailedJobIsNotWaitedFor"},
	{"five VMs at a time, calls of a provider are limited", "TestFiveVMsAreCreatedAtATime TestCallsOfAProviderAreLimited"},
	{"start, and start again; stop", "TestFirstStartCreatesEverythingOnce TestStopAndStartAgain"},
	{"victims: named, else not ready, else newest; never control nodes", "TestVictims TestVictimsAreNeverControlNodesAndNeverAll TestVictimsAreToldToDrain"},
	{"an upgrade replaces one after the other, continues after a failure, one minor at a time", "TestUpgradeReplacesOneAfterTheOther TestThePlanOfAnUpgradeNamesWhatIsReplaced TestValidateUpgrade"},
	{"recovery keeps max_unavailable and the last control node", "TestBatches TestPlanKeepsItsBounds"},
	{"a person's pause keeps the state", "TestAPersonsPauseKeepsTheState"},
	{"one process runs each periodic task, one run a cluster", "TestOneProcessHoldsATaskLease TestALostLockEndsThePass TestTwoServers TestClocksApart"},

	{"findings, tolerances and proof", "TestFindings TestToleranceOfPasses TestMissingIsProvenOnce TestDecisionIsStableAndNeedsProof"},
	{"a failed page means not seen", "TestAFailedPageIsNotSeen TestAPageThatFailsOnceIsReadAgain"},
	{"recover attempts back off, healthy resets them", "TestHealthyAlertIsTriedWithPauses TestHealthyRunningResetsTheTries"},
	{"a healthy cluster is not written; calls are pages and suspicions", "TestSyncWritesNothingOfAHealthyCluster TestCallsOfAPass"},
	{"pauses double and never shrink, the jitter is constant", "TestBackoffDoublesToItsEnd TestBackoffNeverShrinksAndItsJitterIsConstant"},
	{"deleted only with proof; a restored database kills nothing", "TestOrphansAreCollectedWithProof TestARestoredDatabaseKillsNothing TestARestoredDatabaseKillsNoLivingCluster TestDecideOrphan"},
	{"refused credentials stop the pass; gc 0 is left alone", "TestRefusedCredentialsStopThePass TestGCZeroIsLeftAlone"},
	{"open rows without a run are settled", "TestOpenRowsWithoutARunAreSettled TestDecideRow"},
	{"only an operator forgets a cluster, by name, in Expunge", "TestForgetting"},
}

// TestEveryRuleOfClustersHasItsTests: the tests of each rule exist.
func TestEveryRuleOfClustersHasItsTests(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	known := map[string]bool{}
	for _, dir := range []string{"cluster", "provider", "server", "account"} {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			data, err := os.ReadFile(path)
			for _, m := range declared.FindAllSubmatch(data, -1) {
				known[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range clusterRules {
		for name := range strings.FieldsSeq(r.tests) {
			if !known[name] {
				t.Errorf("%s: there is no test %s", r.rule, name)
			}
		}
	}
}
