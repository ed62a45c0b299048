package main

// The JSON model of Grafana 10 and later, as far as the pages use it.

type dashboard struct {
	UID           string         `json:"uid"`
	Title         string         `json:"title"`
	Description   string         `json:"description"`
	Tags          []string       `json:"tags"`
	SchemaVersion int            `json:"schemaVersion"`
	Editable      bool           `json:"editable"`
	GraphTooltip  int            `json:"graphTooltip"`
	Refresh       string         `json:"refresh"`
	Time          timeRange      `json:"time"`
	Templating    templating     `json:"templating"`
	Links         []pageLink     `json:"links"`
	Panels        []grafanaPanel `json:"panels"`
}

type timeRange struct {
	From string `json:"from"`
	To   string `json:"to"`
}

type templating struct {
	List []variable `json:"list"`
}

type variable struct {
	Name       string      `json:"name"`
	Label      string      `json:"label"`
	Type       string      `json:"type"`
	Query      string      `json:"query"`
	Datasource *datasource `json:"datasource,omitempty"`
	Refresh    int         `json:"refresh"`
	Multi      bool        `json:"multi"`
	IncludeAll bool        `json:"includeAll"`
	AllValue   string      `json:"allValue,omitempty"`
}

type datasource struct {
	Type string `json:"type"`
	UID  string `json:"uid"`
}

type pageLink struct {
	Title       string   `json:"title"`
	Type        string   `json:"type"`
	Tags        []string `json:"tags,omitempty"`
	URL         string   `json:"url,omitempty"`
	AsDropdown  bool     `json:"asDropdown,omitempty"`
	KeepTime    bool     `json:"keepTime,omitempty"`
	TargetBlank bool     `json:"targetBlank,omitempty"`
}

type grafanaPanel struct {
	ID          int          `json:"id"`
	Title       string       `json:"title"`
	Type        string       `json:"type"`
	Description string       `json:"description,omitempty"`
	Datasource  *datasource  `json:"datasource,omitempty"`
	GridPos     gridPos      `json:"gridPos"`
	Links       []pageLink   `json:"links,omitempty"`
	Targets     []target     `json:"targets,omitempty"`
	FieldConfig *fieldConfig `json:"fieldConfig,omitempty"`
}

type gridPos struct {
	H int `json:"h"`
	W int `json:"w"`
	X int `json:"x"`
	Y int `json:"y"`
}

type target struct {
	RefID        string      `json:"refId"`
	Expr         string      `json:"expr"`
	LegendFormat string      `json:"legendFormat"`
	Instant      bool        `json:"instant,omitempty"`
	Datasource   *datasource `json:"datasource"`
}

type fieldConfig struct {
	Defaults  fieldDefaults `json:"defaults"`
	Overrides []struct{}    `json:"overrides"`
}

type fieldDefaults struct {
	Unit string `json:"unit"`
}
