package restores

import "github.com/pawl-dev/pawl/chain"

// restore is a pass.
var restore = chain.Chain[*pass]{
	{Name: "UpdateRestoreStatus", Decide: updateRestoreStatus},
	{Name: "StartRestore", Decide: startRestore},
	{Name: "UpdateRestoreStatus", Decide: readAgain},
}
