package sqlstore
import ("context";"errors")
func OpenSQLite(ctx context.Context, o Options) (Store, error) { return nil, errors.New("wip") }
