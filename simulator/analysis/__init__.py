"""Why a run took as long as it did: functions over a trace."""
