"""An experiment on ratings: utility against the number of answers and the privacy rate.

The ratings of every second user are the server's: a truncated singular value decomposition turns
them into item vectors and into the mean and spread of user vectors. The other users are private:
each fits its own vector and releases it with OpenDP's Gaussian noise. The server shrinks the signal
by what it knows of the spread, and answers with the best items for the result, moved along the
direction in which items differ most by the optimal offsets for what uncertainty is left. Utility is
the predicted rating of the best answer as a share of the best in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import opendp.prelude as dp
from scipy.sparse import csr_matrix
from scipy.sparse.linalg import svds

from opendp_optimal.extend import Floats, Integers, csv_rows, positive, whole
from opendp_optimal_select.noise import GaussianNoise
from opendp_optimal_select.placement import lloyd_offsets

Progress = Callable[[float], None]
"""Told the share of the work that is done."""

_RATINGS_COLUMNS = ["userId", "movieId", "rating"]
_RIDGE = 5.0


@dataclass(frozen=True, eq=False)
class Ratings:
    """Who rated what: parallel arrays, with rows and columns numbered from 0.

    :param users: user of each rating
    :param movies: movie of each rating
    :param values: the ratings
    :param titles: title of each movie
    :param generated: whether this is a simulation
    """

    users: Integers
    movies: Integers
    values: Floats
    titles: tuple[str, ...]
    generated: bool

    @property
    def user_count(self) -> int:
        """Number of users."""
        return int(self.users.max()) + 1


def load_ratings(directory: Path, *, max_users: int = 5000) -> Ratings:
    """Read ``ratings.csv`` and ``movies.csv`` in the MovieLens layout.

    :param directory: folder that holds both files
    :param max_users: stop after this many users
    """
    max_users = whole("max_users", max_users)
    for name in ("ratings.csv", "movies.csv"):
        if not (directory / name).is_file():
            raise ValueError(f"data ({directory}) must be a folder that holds {name}")
    titles = _read_titles(directory / "movies.csv")
    users: dict[str, int] = {}
    movies: dict[str, int] = {}
    rows: list[tuple[int, int, float]] = []
    path = directory / "ratings.csv"
    with csv_rows(path) as reader:
        if next(reader, [])[:3] != _RATINGS_COLUMNS:
            raise ValueError(f"{path.name} must begin with the columns userId,movieId,rating")
        for number, row in enumerate(reader, start=2):
            try:
                user, movie, rating = row[0], row[1], float(row[2])
            except (IndexError, ValueError):
                raise ValueError(f"{path.name} (line {number}) must be a rating") from None
            if not 0.0 <= rating <= 10.0:
                raise ValueError(f"{path.name} (line {number}) must be a rating from 0 to 10")
            if user not in users and len(users) == max_users:
                break
            index = users.setdefault(user, len(users)), movies.setdefault(movie, len(movies))
            rows.append((*index, rating))
    if not rows:
        raise ValueError(f"{path.name} must hold at least one rating")
    columns = list(zip(*rows, strict=True))
    return Ratings(
        np.array(columns[0], dtype=np.int64),
        np.array(columns[1], dtype=np.int64),
        np.array(columns[2], dtype=np.float64),
        tuple(titles.get(movie, f"movie {movie}") for movie in movies),
        generated=False,
    )


def _read_titles(path: Path) -> dict[str, str]:
    with csv_rows(path) as reader:
        if next(reader, [])[:2] != ["movieId", "title"]:
            raise ValueError(f"{path.name} must begin with the columns movieId,title")
        return {row[0]: row[1] for row in reader if len(row) >= 2}


def generate_ratings(*, users: int = 800, movies: int = 1500, seed: int = 1) -> Ratings:
    """Return simulated ratings: a few latent tastes, popular and unpopular movies, some noise.

    :param users: number of users
    :param movies: number of movies
    :param seed: seed of the simulation
    """
    users, movies = whole("users", users), whole("movies", movies)
    rng = np.random.default_rng(seed)
    strength = np.array([1.0, 0.5, 0.35, 0.25])
    taste = rng.normal(size=(users, 4)) * strength
    trait = rng.normal(size=(movies, 4)) * strength
    quality = rng.normal(3.4, 0.35, size=movies)
    popularity = 1.0 / np.arange(1, movies + 1) ** 0.7
    popularity /= popularity.sum()
    per_user = min(80, movies)
    rows = np.repeat(np.arange(users), per_user)
    columns = np.concatenate(
        [rng.choice(movies, per_user, replace=False, p=popularity) for _ in range(users)]
    )
    exact = quality[columns] + (taste[rows] * trait[columns]).sum(axis=1)
    noisy = exact + rng.normal(0.0, 0.4, size=exact.size)
    values = np.clip(np.round(2.0 * noisy) / 2.0, 0.5, 5.0)
    seen, columns = np.unique(columns, return_inverse=True)
    titles = tuple(f"generated movie {i}" for i in seen)
    return Ratings(rows, columns.astype(np.int64), values, titles, generated=True)


@dataclass(frozen=True, eq=False)
class TasteModel:
    """Items and users as vectors: the predicted rating is ``means + users @ items.T``.

    User vectors are scaled and clipped to norm 1, so any two users are at most 2 apart.

    :param means: what an average user thinks of each item
    :param items: one vector per item
    :param users: one vector per private user
    :param centre: mean vector of the server's own users
    :param covariance: spread of the server's own users
    """

    means: Floats
    items: Floats
    users: Floats
    centre: Floats
    covariance: Floats


def fit_tastes(ratings: Ratings, *, features: int = 4, min_ratings: int = 10) -> TasteModel:
    """Return item and user vectors; items are fitted to every second user's ratings only.

    :param ratings: who rated what
    :param features: length of the vectors
    :param min_ratings: leave out movies rated less often
    """
    features = whole("features", features)
    own = ratings.users % 2 == 0
    counts = np.bincount(ratings.movies[own], minlength=len(ratings.titles))
    kept = np.flatnonzero(counts >= min_ratings)
    if min(kept.size, ratings.user_count // 2) <= features:
        raise ValueError(
            f"features ({features}) must be below half the number of users "
            f"({ratings.user_count // 2}) and the number of movies that {min_ratings} of the "
            f"server's users rated ({kept.size})"
        )
    column = np.full(counts.size, -1)
    column[kept] = np.arange(kept.size)
    use = column[ratings.movies] >= 0
    rows, columns, values = ratings.users[use], column[ratings.movies[use]], ratings.values[use]
    own = rows % 2 == 0
    overall = float(values[own].mean())
    sums = np.bincount(columns[own], values[own] - overall, minlength=kept.size)
    means = overall + sums / (counts[kept] + _RIDGE)
    shape = (ratings.user_count, kept.size)
    matrix = csr_matrix((values - means[columns], (rows, columns)), shape=shape)
    public = matrix[::2]
    _, strengths, right = svds(public, k=features, v0=np.ones(min(public.shape)))
    items = right.T * np.sqrt(strengths)
    users = _fit_users(matrix, items)
    norms = np.linalg.norm(users, axis=1)
    scale = float(np.quantile(norms[::2], 0.95)) or 1.0
    users = users / np.maximum(norms / scale, 1.0)[:, None] / scale
    centre = users[::2].mean(axis=0)
    covariance = np.cov(users[::2].T).reshape(features, features)
    return TasteModel(means, items * scale, users[1::2], centre, covariance)


def _fit_users(matrix: csr_matrix, items: Floats) -> Floats:
    """Return each user's vector by regularised least squares, from its own ratings only."""
    features = items.shape[1]
    users = np.zeros((matrix.shape[0], features))
    ridge = _RIDGE * np.eye(features) * float((items**2).mean())
    for user in range(matrix.shape[0]):
        low, high = matrix.indptr[user], matrix.indptr[user + 1]
        rated = items[matrix.indices[low:high]]
        users[user] = np.linalg.solve(rated.T @ rated + ridge, rated.T @ matrix.data[low:high])
    return users


@dataclass(frozen=True, eq=False)
class UtilityTable:
    """Mean share of the best possible utility, by privacy rate (rows) and answers (columns)."""

    epsilons: tuple[float, ...]
    ks: tuple[int, ...]
    utility: Floats
    users: int
    movies: int
    generated: bool


def run_experiment(
    ratings: Ratings,
    *,
    epsilons: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
    ks: Sequence[int] = (1, 2, 3, 5, 9),
    max_users: int = 400,
    features: int = 4,
    progress: Progress | None = None,
) -> UtilityTable:
    """Return utility against ``k`` and the privacy rate, with real releases of every user.

    The noise has standard deviation ``1/epsilon`` on each feature: zero-concentrated privacy
    ``rho = epsilon**2 d**2 / 2`` between users ``d`` apart.

    :param ratings: who rated what
    :param epsilons: privacy rates
    :param ks: numbers of answers
    :param max_users: evaluate on this many users
    :param features: length of the feature vectors
    :param progress: told the share of the work that is done
    """
    rates = tuple(positive("epsilons", e) for e in epsilons)
    model = fit_tastes(ratings, features=features)
    sizes = tuple(whole("ks", k, most=len(model.items)) for k in ks)
    users = model.users[: whole("max_users", max_users)]
    # A prediction beyond the end of the scale is worth no more than the end of the scale.
    exact = np.clip(model.means + users @ model.items.T, ratings.values.min(), ratings.values.max())
    best = exact.max(axis=1)
    utility = np.empty((len(rates), len(sizes)))
    for i, rate in enumerate(rates):
        signals = _release(users, 1.0 / rate)
        for j, k in enumerate(sizes):
            chosen = select_items(model, signals, k, scale=1.0 / rate)
            reached = np.take_along_axis(exact, chosen, axis=1).max(axis=1)
            utility[i, j] = float((reached / best).mean())
            if progress is not None:
                progress((i * len(sizes) + j + 1) / utility.size)
    return UtilityTable(
        rates, sizes, utility, len(users), len(model.items), generated=ratings.generated
    )


def _release(users: Floats, scale: float) -> Floats:
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), users.size)
    noise = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    return np.array(noise(users.ravel().tolist())).reshape(users.shape)


def select_items(model: TasteModel, signals: Floats, k: int, *, scale: float) -> Integers:
    """Return ``k`` distinct items per signal.

    :param model: item vectors and the spread of users
    :param signals: one noisy user vector per row
    :param k: number of answers
    :param scale: standard deviation of the noise
    """
    centres, spread = _posterior(model, signals, scale)
    centred = (model.items - model.items.mean(axis=0)) @ spread
    along = model.items @ spread @ np.linalg.eigh(centred.T @ centred)[1][:, -1]
    steps = sorted(lloyd_offsets(k, GaussianNoise(1.0)), key=abs)
    chosen = np.empty((len(signals), k), dtype=np.int64)
    for row, centre in enumerate(centres):
        scores = model.means + model.items @ centre
        picks = dict.fromkeys(int((scores + step * along).argmax()) for step in steps)
        if len(picks) < k:
            # Two offsets want the same item: fill up with the next best for the signal itself.
            near = np.argpartition(-scores, k - 1)[:k]
            picks.update(dict.fromkeys(near[np.argsort(-scores[near])].tolist()))
        chosen[row] = list(picks)[:k]
    return chosen


def _posterior(model: TasteModel, signals: Floats, scale: float) -> tuple[Floats, Floats]:
    """Return the best linear guess at each user vector, and a square root of its covariance."""
    variances, vectors = np.linalg.eigh(model.covariance)
    variances = np.maximum(variances, 1e-12)
    keep = variances / (variances + scale * scale)
    guesses = model.centre + (signals - model.centre) @ (vectors * keep) @ vectors.T
    return guesses, np.asarray(vectors * (scale * np.sqrt(keep)))
