"""A node's settings come from the command line, the environment and a file, and each wrong one is named."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftsched.cli import node_command
from raftsched.cli.main import main
from raftsched.cli.node_settings import SettingsError, combine, node_config, read_settings_file
from raftsched.model.retention import RetentionSettings
from raftsched.node.config import NodeConfig

FILE = """
node_id = 2
data_dir = "data"
listen = "0.0.0.0:7100"
cluster_id = "production"
session_ttl = "15s"
drain_grace = "30s"
log_format = "json"
[peers]
1 = "10.0.0.1:7100"
2 = "10.0.0.2:7100"
3 = "10.0.0.3:7100"
[tls]
certificate = "node.pem"
key = "node.key"
authority = "/etc/ssl/authority.pem"
"""

THREE = ("--peer", "1=10.0.0.1:1", "--peer", "2=10.0.0.2:1", "--peer", "3=10.0.0.3:1")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NodeConfig]:
    """What nodes would have been run with."""
    configs: list[NodeConfig] = []
    monkeypatch.setattr(node_command, "_run", configs.append)
    monkeypatch.setattr(node_command, "configure_logging", lambda *_, **__: None)
    return configs


def run(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(main, ["node", *arguments], env=environment)


def written(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def test_a_file_holds_all_settings_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    settings = read_settings_file(written(tmp_path, FILE))
    assert settings["data_dir"] == tmp_path / "data"
    assert settings["tls_certificate"] == tmp_path / "node.pem"
    assert settings["tls_authority"] == Path("/etc/ssl/authority.pem")
    assert settings["peers"] == {1: "10.0.0.1:7100", 2: "10.0.0.2:7100", 3: "10.0.0.3:7100"}
    assert (settings["session_ttl_ms"], settings["drain_grace_s"]) == (15_000, 30.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("node_id = ", "not TOML"),
        ("nodeid = 1", "unknown key 'nodeid'"),
        ("node_id = '1'", "node_id is a whole number"),
        ("node_id = true", "node_id is a whole number"),
        ("node_id = 1.0", "node_id is a whole number"),
        ("listen = 7100", "listen is a string"),
        ("listen = 'here'", "listen: 'here' is not HOST:PORT"),
        ("session_ttl = '10'", "session_ttl: '10' is not a duration"),
        ("peers = ['10.0.0.1:1']", "peers is a table"),
        ("[peers]\none = '10.0.0.1:1'", "peers: 'one' is not a node id"),
        ("[peers]\n1 = 'x'", "peers.1: 'x' is not HOST:PORT"),
        ("log_format = 'xml'", "log_format is one of text, json"),
        ("[tls]\ncert = 'x'", "tls is a table with certificate, key and authority"),
        (
            "[retention]\nage = '1d'",
            "retention is a table with max_age, max_executions, request_ids",
        ),
        ("[retention]\nmax_age = 5", "retention.max_age is a string"),
        ("[retention]\ndead_letter_quota = '5'", "retention.dead_letter_quota is a whole number"),
    ],
)
def test_a_wrong_key_or_value_of_a_file_is_named(tmp_path: Path, text: str, reason: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError, match=reason) as raised:
        read_settings_file(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_what_is_kept_is_a_setting_of_the_node(tmp_path: Path) -> None:
    text = "[retention]\nmax_age = '2d'\nmax_executions = 50\nrequest_ids = '0s'\ndead_letter_quota = 7\n"
    settings = read_settings_file(written(tmp_path, text))
    base = {"node_id": 1, "data_dir": tmp_path, "listen": "10.0.0.1:1"}
    config = node_config({**base, **settings})
    assert config.retention == RetentionSettings(2 * 86_400_000, 50, 0, 7)
    assert node_config(base).retention == RetentionSettings()
    with pytest.raises(SettingsError, match=r"retention\.age_ms must be 1 s to 10 years"):
        node_config({**base, "retention": {"age_ms": 5}})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_settings_file(tmp_path / "gone.toml")


def test_what_is_given_comes_before_the_file() -> None:
    merged = combine({"listen": "a:1", "cluster_id": None, "peers": {}}, {"listen": "b:1", "peers": {1: "c:1"}})
    assert merged == {"listen": "a:1", "peers": {1: "c:1"}}


def test_a_node_that_others_can_connect_to_need_not_be_its_own_peer() -> None:
    config = node_config({"node_id": 1, "data_dir": Path("d"), "listen": "10.0.0.1:1", "peers": {}})
    assert config.peers == {1: "10.0.0.1:1"}


def test_a_node_that_listens_everywhere_must_say_its_address() -> None:
    with pytest.raises(SettingsError, match="--peer 1=HOST:PORT"):
        node_config({"node_id": 1, "data_dir": Path("d"), "listen": "0.0.0.0:1"})


@pytest.mark.parametrize("missing", ["node_id", "data_dir", "listen"])
def test_a_missing_setting_is_named(missing: str) -> None:
    settings = {"node_id": 1, "data_dir": Path("d"), "listen": "10.0.0.1:1"}
    del settings[missing]
    with pytest.raises(SettingsError, match=f"{missing} is missing"):
        node_config(settings)


def test_tls_needs_all_its_files(tmp_path: Path) -> None:
    settings = {"node_id": 1, "data_dir": Path("d"), "listen": "10.0.0.1:1", "tls_certificate": tmp_path / "a"}
    with pytest.raises(SettingsError, match="missing: tls_key, tls_authority"):
        node_config(settings)
    both = settings | {"tls_key": tmp_path / "b", "tls_authority": tmp_path / "c"}
    with pytest.raises(SettingsError, match="tls_certificate: there is no file"):
        node_config(both)


def test_options_make_a_node(started: list[NodeConfig], tmp_path: Path) -> None:
    result = run("--id", "1", "--data", str(tmp_path), "--listen", "0.0.0.0:1", *THREE, "--session-ttl", "5s")
    assert result.exit_code == 0, result.output
    (config,) = started
    assert (config.node_id, config.data_dir, config.session_ttl_ms) == (1, tmp_path, 5_000)
    assert config.peers == {1: "10.0.0.1:1", 2: "10.0.0.2:1", 3: "10.0.0.3:1"}


def test_the_environment_makes_a_node(started: list[NodeConfig], tmp_path: Path) -> None:
    environment = {
        "RAFTSCHED_NODE_ID": "3",
        "RAFTSCHED_DATA": str(tmp_path),
        "RAFTSCHED_LISTEN": "10.0.0.3:1",
        "RAFTSCHED_PEERS": "1=10.0.0.1:1 2=10.0.0.2:1",
        "RAFTSCHED_CLUSTER_ID": "c",
    }
    result = run(environment=environment)
    assert result.exit_code == 0, result.output
    (config,) = started
    assert (config.node_id, config.cluster_id, len(config.peers)) == (3, "c", 3)


def test_a_joining_node_names_those_that_are_there_and_a_way_of_its_own(
    started: list[NodeConfig], tmp_path: Path
) -> None:
    path = written(
        tmp_path,
        'node_id = 2\ndata_dir = "d"\nlisten = "10.0.0.2:1"\n[peers]\n1 = "10.0.0.1:1"\n[routes]\n1 = "127.0.0.1:9"\n',
    )
    result = run("--config", str(path))
    assert result.exit_code == 0, result.output
    (config,) = started
    assert config.peers == {1: "10.0.0.1:1", 2: "10.0.0.2:1"}
    assert config.routes == {1: "127.0.0.1:9"}


def test_a_file_makes_a_node_and_options_change_it(started: list[NodeConfig], tmp_path: Path) -> None:
    path = written(tmp_path, FILE.partition("[tls]")[0])
    result = run("--config", str(path), "--cluster-id", "test")
    assert result.exit_code == 0, result.output
    (config,) = started
    assert (config.node_id, config.cluster_id, config.data_dir) == (2, "test", tmp_path / "data")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "node_id is missing"),
        (("--id", "x"), "'x' is not a valid integer"),
        (("--id", "0", "--data", "d", "--listen", "h:1"), "node_id must be 1"),
        (("--id", "1", "--data", "d", "--listen", "h"), "is not HOST:PORT"),
        (("--id", "1", "--data", "d", "--listen", "h:1", "--peer", "2"), "is not ID=HOST:PORT"),
        (("--id", "1", "--data", "d", "--listen", "h:1", "--peer", "2=g:1", "--peer", "3=g:1"), "same address"),
        (("--id", "1", "--data", "d", "--listen", "h:1", "--peer", "2=g:1", "--peer", "2=i:1"), "same node twice"),
        (("--id", "1", "--data", "d", "--listen", "h:1", "--session-ttl", "1ms"), "session_ttl_ms"),
        (("--log-format", "xml"), "'xml' is not one of"),
    ],
)
def test_wrong_options_end_with_2_and_the_reason(
    started: list[NodeConfig], arguments: tuple[str, ...], reason: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert reason in result.output
    assert not started
