package simclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Client calls the control interface of a simulator.
type Client struct {
	// URL of the simulator, such as http://127.0.0.1:4566.
	URL  string
	HTTP *http.Client
}

// New returns a client for the simulator at a URL.
func New(url string) *Client {
	return &Client{URL: strings.TrimSuffix(url, "/"), HTTP: http.DefaultClient}
}

// Defaults returns the names that exist in the account.
func (c *Client) Defaults(ctx context.Context) (Defaults, error) {
	return get[Defaults](ctx, c, "defaults")
}

// Instances returns all instances as they are now.
func (c *Client) Instances(ctx context.Context) ([]Instance, error) {
	return get[[]Instance](ctx, c, "instances")
}

// Ledger returns the launches and terminations after a sequence number (0 for all).
func (c *Client) Ledger(ctx context.Context, since uint64) ([]Entry, error) {
	return get[[]Entry](ctx, c, "ledger?since="+strconv.FormatUint(since, 10))
}

// Calls returns how often each action was called, by outcome.
func (c *Client) Calls(ctx context.Context) (Calls, error) { return get[Calls](ctx, c, "calls") }

// Callers returns what each caller needed.
func (c *Client) Callers(ctx context.Context) (Callers, error) {
	return get[Callers](ctx, c, "callers")
}

// Settings returns the delays in force.
func (c *Client) Settings(ctx context.Context) (Settings, error) {
	return get[Settings](ctx, c, "settings")
}

// SetSettings changes the delays; read them first to keep the others.
func (c *Client) SetSettings(ctx context.Context, s Settings) error {
	return c.do(ctx, http.MethodPatch, "settings", s, nil)
}

// SetCapacity replaces all capacity rules; none means unlimited.
func (c *Client) SetCapacity(ctx context.Context, rules ...Capacity) error {
	return c.do(ctx, http.MethodPut, "capacity", append([]Capacity{}, rules...), nil)
}

// SetQuotas replaces all quotas of vCPUs.
func (c *Client) SetQuotas(ctx context.Context, quotas ...Quota) error {
	return c.do(ctx, http.MethodPut, "quotas", append([]Quota{}, quotas...), nil)
}

// AddFault injects a fault and returns it with its id.
func (c *Client) AddFault(ctx context.Context, f Fault) (Fault, error) {
	var out Fault
	err := c.do(ctx, http.MethodPost, "faults", f, &out)
	return out, err
}

// Faults returns those still active.
func (c *Client) Faults(ctx context.Context) ([]Fault, error) { return get[[]Fault](ctx, c, "faults") }

// ClearFault removes one fault, or all with the id "".
func (c *Client) ClearFault(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, strings.TrimSuffix("faults/"+id, "/"), nil, nil)
}

// SetLimits replaces all throttles.
func (c *Client) SetLimits(ctx context.Context, limits ...Limit) error {
	return c.do(ctx, http.MethodPut, "limits", append([]Limit{}, limits...), nil)
}

// SetPublishedLimits replaces all throttles by the limits that EC2 publishes.
func (c *Client) SetPublishedLimits(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "limits", nil, nil)
}

// SetPrices overrides prices; others stay.
func (c *Client) SetPrices(ctx context.Context, prices ...Price) error {
	return c.do(ctx, http.MethodPut, "prices", prices, nil)
}

// ClearPrices removes all overrides.
func (c *Client) ClearPrices(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "prices", nil, nil)
}

// SetZonalShifts replaces the zonal shifts of the cluster.
func (c *Client) SetZonalShifts(ctx context.Context, shifts ZonalShifts) error {
	return c.do(ctx, http.MethodPut, "zonalshifts", shifts, nil)
}

// AddReservation makes a capacity reservation and returns it with its id.
func (c *Client) AddReservation(ctx context.Context, r Reservation) (Reservation, error) {
	var out Reservation
	err := c.do(ctx, http.MethodPost, "reservations", r, &out)
	return out, err
}

// Reservations returns all capacity reservations, ended ones included, by id.
func (c *Client) Reservations(ctx context.Context) ([]Reservation, error) {
	return get[[]Reservation](ctx, c, "reservations")
}

// ChangeReservation resizes a capacity reservation or says when it ends.
func (c *Client) ChangeReservation(ctx context.Context, id string, change ReservationChange) error {
	return c.do(ctx, http.MethodPatch, "reservations/"+id, change, nil)
}

// CancelReservation ends a capacity reservation; its instances run on as plain on-demand ones.
func (c *Client) CancelReservation(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "reservations/"+id, nil, nil)
}

// SetAvailableAddresses sets how many free addresses a subnet has; -1 for the real number.
func (c *Client) SetAvailableAddresses(ctx context.Context, subnetID string, n int) error {
	return c.do(ctx, http.MethodPut, "subnets/"+subnetID, map[string]int{"availableAddresses": n}, nil)
}

// PutOnOutpost puts a subnet on an Outpost.
func (c *Client) PutOnOutpost(ctx context.Context, subnetID string, o Outpost) error {
	return c.do(ctx, http.MethodPut, "subnets/"+subnetID, map[string]any{"availableAddresses": -1, "outpost": o}, nil)
}

// Interrupt announces an event about an instance on the queue.
func (c *Client) Interrupt(ctx context.Context, instanceID string, i Interruption) error {
	return c.do(ctx, http.MethodPost, "instances/"+instanceID+"/interrupt", i, nil)
}

// Fail breaks an instance's hardware, Recover repairs it, Terminate ends it as if by someone else.
func (c *Client) Fail(ctx context.Context, instanceID string) error {
	return c.do(ctx, http.MethodPost, "instances/"+instanceID+"/fail", nil, nil)
}

// Recover ends a failure.
func (c *Client) Recover(ctx context.Context, instanceID string) error {
	return c.do(ctx, http.MethodPost, "instances/"+instanceID+"/recover", nil, nil)
}

// Terminate ends an instance as if someone else had done it.
func (c *Client) Terminate(ctx context.Context, instanceID string) error {
	return c.do(ctx, http.MethodPost, "instances/"+instanceID+"/terminate", nil, nil)
}

// PublishImages adds a release of all images dated YYYYMMDD and moves the aliases to it.
func (c *Client) PublishImages(ctx context.Context, date string) error {
	return c.do(ctx, http.MethodPost, "images", map[string]string{"date": date}, nil)
}

// SetParameter sets an SSM parameter.
func (c *Client) SetParameter(ctx context.Context, name, value string) error {
	return c.do(ctx, http.MethodPut, "parameters", map[string]string{"name": name, "value": value}, nil)
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	var out T
	err := c.do(ctx, http.MethodGet, path, nil, &out)
	return out, err
}

// do sends a request and decodes the answer into out, if that is not nil.
func (c *Client) do(ctx context.Context, method, path string, body, out any) error {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode %s: %w", path, err)
		}
		reader = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+"/_control/"+path, reader)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read answer to %s %s: %w", method, path, err)
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, strings.TrimSpace(string(data)))
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		return fmt.Errorf("decode answer to %s %s: %w", method, path, err)
	}
	return nil
}
