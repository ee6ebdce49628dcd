package admin

import "net/http"

func (a *Admin) members(w http.ResponseWriter, _ *http.Request) {
	a.write(w, http.StatusOK, a.memberList())
}

func (a *Admin) memberList() []Member {
	if a.deps.Members == nil {
		return []Member{}
	}
	return orEmpty(a.deps.Members())
}

// cluster is nil for a router that is alone.
func (a *Admin) cluster() *ClusterStatus {
	if a.deps.Cluster == nil {
		return nil
	}
	c := a.deps.Cluster()
	c.Voters = orEmpty(c.Voters)
	return &c
}

func (a *Admin) epochs(w http.ResponseWriter, _ *http.Request) {
	var list []EpochInfo
	if a.deps.Epochs != nil {
		list = a.deps.Epochs()
	}
	a.write(w, http.StatusOK, orEmpty(list))
}
