import numpy as np
import pytest

from docs.reproduce.goel.ratings import (
    fit_tastes,
    generate_ratings,
    load_ratings,
    run_experiment,
    select_items,
)


@pytest.fixture(scope="module")
def simulated():
    return generate_ratings(users=200, movies=200, seed=3)


def write_movielens(folder, ratings):
    movies = ["movieId,title,genres"]
    movies += [f'{10 + i},"Title, the {i}th",Drama' for i in range(len(ratings.titles))]
    (folder / "movies.csv").write_text("\n".join(movies) + "\n", encoding="utf-8")
    rows = ["userId,movieId,rating,timestamp"]
    columns = zip(ratings.users, ratings.movies, ratings.values, strict=True)
    rows += [f"{u + 1},{m + 10},{r},0" for u, m, r in columns]
    (folder / "ratings.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def test_utility_rises_with_answers_and_with_epsilon(simulated):
    table = run_experiment(simulated, epsilons=(0.5, 4.0, 1000.0), ks=(1, 3, 9), max_users=150)
    assert table.generated
    # Real noise: the margins are several times what 150 users can hide.
    assert (np.diff(table.utility[:2], axis=1) > -0.005).all()
    assert (table.utility[:2, 2] > table.utility[:2, 0]).all()
    assert table.utility[2] == pytest.approx(1.0, abs=1e-3)
    assert table.utility[0, 0] < table.utility[2, 0]
    assert table.utility.max() <= 1.0 + 1e-12


def test_movielens_layout(tmp_path, simulated):
    write_movielens(tmp_path, simulated)
    loaded = load_ratings(tmp_path)
    assert not loaded.generated
    assert loaded.values.tolist() == simulated.values.tolist()
    assert loaded.titles[0].startswith("Title, the ")
    assert load_ratings(tmp_path, max_users=7).user_count == 7
    table = run_experiment(loaded, epsilons=(2.0,), ks=(1, 5), max_users=100)
    assert table.utility[0, 1] > table.utility[0, 0]


def test_selection_is_distinct(simulated):
    model = fit_tastes(simulated)
    assert np.linalg.norm(model.users, axis=1).max() <= 1.0 + 1e-12
    for k in (1, 2, 9, 40):
        rows = select_items(model, model.users[:20], k, scale=0.01)
        assert all(len(set(row)) == k for row in rows.tolist())


def test_bad_data(tmp_path, simulated):
    with pytest.raises(ValueError, match=r"must be a folder that holds ratings\.csv"):
        load_ratings(tmp_path)
    write_movielens(tmp_path, simulated)
    (tmp_path / "ratings.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="must begin with the columns"):
        load_ratings(tmp_path)
    for line, message in (("1,2,x,0", "line 2"), ("1", "line 2"), ("1,2,nan,0", "from 0 to 10")):
        (tmp_path / "ratings.csv").write_text(f"userId,movieId,rating,timestamp\n{line}\n")
        with pytest.raises(ValueError, match=message):
            load_ratings(tmp_path)
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n")
    with pytest.raises(ValueError, match="at least one rating"):
        load_ratings(tmp_path)
    (tmp_path / "ratings.csv").write_text("userId,movieId,rating,timestamp\n1,10,5.0,0\n")
    with pytest.raises(ValueError, match="features"):
        run_experiment(load_ratings(tmp_path))
    (tmp_path / "movies.csv").write_text("x\n")
    with pytest.raises(ValueError, match="movieId,title"):
        load_ratings(tmp_path)
