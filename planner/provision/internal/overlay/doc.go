// Package overlay applies NodeOverlays to the catalogues of NodePools (reference: scheduling §13). The result
// is computed once per change of the World and shared; it must not be changed.
package overlay
