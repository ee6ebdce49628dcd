package peer

import (
	"context"
	"fmt"

	"google.golang.org/grpc/metadata"
)

// Identity is how a router introduces itself with each call.
type Identity struct {
	Name    string        // unique to this run of the router
	Label   string        // the cluster's name in the configuration
	Cluster func() string // the cluster's id, empty while it belongs to none
}

// The keys of the metadata that goes with each call, and with the answer to Loads.
const (
	nameKey    = "warmring-name"
	labelKey   = "warmring-label"
	clusterKey = "warmring-cluster"
)

func (i Identity) metadata() metadata.MD {
	return metadata.Pairs(nameKey, i.Name, labelKey, i.Label, clusterKey, i.Cluster())
}

// introduce adds the identity to a call's metadata.
func (i Identity) introduce(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, nameKey, i.Name, labelKey, i.Label, clusterKey, i.Cluster())
}

// caller reads who calls.
func caller(ctx context.Context) (name, label, cluster string) {
	md, _ := metadata.FromIncomingContext(ctx)
	return introduced(md)
}

func introduced(md metadata.MD) (name, label, cluster string) {
	first := func(key string) string {
		if values := md.Get(key); len(values) > 0 {
			return values[0]
		}
		return ""
	}
	return first(nameKey), first(labelKey), first(clusterKey)
}

// admit refuses who belongs to another cluster. A router that belongs to none yet
// is let in: it has to ask before it can join.
func (i Identity) admit(name, label, cluster string) error {
	if label != i.Label {
		return fmt.Errorf("%w: router %q is of cluster %q, router %q is of cluster %q", ErrForeign, name, label, i.Name, i.Label)
	}
	if own := i.Cluster(); cluster != "" && own != "" && cluster != own {
		return fmt.Errorf("%w: router %q is of cluster %q with id %s, router %q is of the one with id %s",
			ErrForeign, name, label, cluster, i.Name, own)
	}
	return nil
}
